"""Norms of the suite put into other libraries' models, against models built with them by hand."""

import copy
import io
import re
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, distributed, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

import adanorm
from adanorm.config.paths import PROJECT
from adanorm.norms import AdaNorm, LayerNorm, NormChoice, RmsNorm, norm_factory
from adanorm.training.distributed import leave_group
from tests.networks import torchvision_models


class FamilyRMSNorm(nn.Module):
    """RMSNorm as libraries of language models write it."""

    def __init__(self, features: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(features) + 0.5)
        self.variance_epsilon = eps

    def forward(self, hidden: Tensor) -> Tensor:
        scale = torch.rsqrt(hidden.float().pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return self.weight * (hidden.float() * scale).to(hidden.dtype)


def changed(name: str, forward: Callable[[Any, Tensor], Tensor]) -> type[FamilyRMSNorm]:
    return type(name, (FamilyRMSNorm,), {"forward": forward})


less = changed("LessRMSNorm", lambda norm, x: 0.9 * FamilyRMSNorm.forward(norm, x))
# The first learns its gain less one; the second is called a norm and is none.
gemma = changed(
    "GemmaRMSNormFast", lambda n, x: FamilyRMSNorm.forward(n, x) / n.weight * (1 + n.weight)
)
shifting = changed("ShiftingLayerNorm", lambda norm, x: x + norm.weight)


class GatedRMSNorm(FamilyRMSNorm):
    """A norm of the product of two tensors, if it gets a second."""

    def forward(self, x: Tensor, gate: Tensor | None = None) -> Tensor:
        return super().forward(x if gate is None else x * gate)


class BareLayerNorm(nn.Identity):
    """A norm that does not say over how many features it is."""


class WrittenOutLayerNorm(nn.Module):
    """LayerNorm as somebody else's library may write it, its gain and bias learned."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight, self.bias = (nn.Parameter(torch.rand(features) + 0.5) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        variance, mean = torch.var_mean(
            x,
            -1,
            correction=0,
            keepdim=True,
        )
        return self.weight * (x - mean) / (variance + 1e-5).sqrt() + self.bias


NORM_LAYER = partial(nn.LayerNorm, eps=1e-6)  # torchvision's own


def vision_transformer(norm_layer: Any = NORM_LAYER) -> Any:
    torch.manual_seed(0)
    return torchvision_models().VisionTransformer(
        image_size=16,
        patch_size=8,
        num_layers=2,
        num_heads=2,
        hidden_dim=16,
        mlp_dim=32,
        num_classes=5,
        norm_layer=norm_layer,
    )


def images() -> Tensor:
    return torch.randn(
        3,
        3,
        16,
        16,
        generator=torch.Generator().manual_seed(1),
    )


def test_a_vision_transformer_gives_what_one_built_with_the_norm_gives() -> None:
    model, by_hand = vision_transformer().eval(), vision_transformer(AdaNorm).eval()
    with torch.no_grad():
        by_hand.heads.head.weight.normal_(
            generator=torch.Generator().manual_seed(2)
        )  # it starts at 0
        model.heads.head.weight.copy_(by_hand.heads.head.weight)
    report = adanorm.swap(model, "adanorm")
    names = [f"encoder.layers.encoder_layer_{i}.ln_{j}" for i in (0, 1) for j in (1, 2)]
    assert report.sites == (*names, "encoder.ln")
    assert report.left == {}
    by_hand.load_state_dict(model.state_dict())
    assert torch.equal(model(images()), by_hand(images()))


def test_a_name_goes_before_a_glob() -> None:
    model = nn.Module()
    for name in ("a[0]", "a0"):
        model.add_module(name, nn.LayerNorm(4))
    assert adanorm.swap(model, "rmsnorm", where="a[0]").sites == ("a[0]",)
    assert adanorm.swap(model, "rmsnorm", where="a[0-9]").sites == ("a0",)


@pytest.mark.parametrize(
    ("where", "name"), [("a[0]", "a.0"), ("a[12].b", "a.12.b"), ("*.a[1]", "*.a.1")]
)
def test_an_index_into_a_list_of_modules_is_no_glob(where: str, name: str) -> None:
    model, inner = nn.Module(), nn.Module()
    for parent in (model, inner):
        parent.add_module("a", nn.ModuleList(nn.LayerNorm(4) for _ in range(2)))
        parent.add_module("a0", nn.LayerNorm(4))
    model.add_module("c", inner)
    with pytest.raises(ValueError, match=f"this is {re.escape(repr(name))}$"):
        adanorm.swap(model, "rmsnorm", where=where)
    assert adanorm.swap(model, "rmsnorm", where="*[02]").sites == ("a.0", "a0", "c.a.0", "c.a0")


@pytest.mark.parametrize(
    ("norm", "words"),
    [
        ("adanorm", []),
        ("groupnorm", ["a causal model"]),
        ("instancenorm", ["a causal model"]),
        ("batchnorm", ["over the batch"]),
    ],
)
def test_a_swap_says_what_a_norm_over_several_rows_means_for_the_model(
    norm: str, words: list[str]
) -> None:
    notes = adanorm.swap(nn.Sequential(nn.LayerNorm(8)), norm).notes
    assert len(notes) == len(words)
    assert all(word in note for word, note in zip(words, notes, strict=True))


class FusedRMSNorm(FamilyRMSNorm):
    def forward(self, hidden: Tensor) -> Tensor:
        raise AssertionError("needs a GPU")


class ChannelsOfImagesLayerNorm(WrittenOutLayerNorm):
    """LayerNorm over the channels of images, and over the last axis of anything else."""

    def forward(self, x: Tensor) -> Tensor:
        return (
            super().forward(x.movedim(1, -1)).movedim(-1, 1) if x.dim() == 4 else super().forward(x)
        )


class DroppingLayerNorm(nn.LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(super().forward(x), 0.5, self.training)


class ScaledLayerNorm(nn.LayerNorm):
    """A norm with a number of its own in checkpoints."""

    def __init__(self, features: int) -> None:
        super().__init__(features)
        self.register_buffer("alpha", torch.ones(1))


@pytest.mark.parametrize(
    ("cls", "reason"),
    [
        (FusedRMSNorm, "FusedRMSNorm cannot be tried here: AssertionError: needs a GPU"),
        (
            ChannelsOfImagesLayerNorm,
            "ChannelsOfImagesLayerNorm is no norm of rows over the last axis",
        ),
        (DroppingLayerNorm, "DroppingLayerNorm is no norm of rows over the last axis"),
        (ScaledLayerNorm, "ScaledLayerNorm has parameters beside weight and bias: alpha"),
    ],
)
def test_a_norm_that_computes_more_or_cannot_run_here_is_left(cls: Any, reason: str) -> None:
    model = nn.ModuleList([cls(8), nn.LayerNorm(8)])
    report = adanorm.swap(model, "adanorm")
    assert report.sites == ("1",)
    assert report.left == {"0": reason}


def test_globs_choose_sites_and_the_rest_stays() -> None:
    model = vision_transformer()
    report = adanorm.swap(model, "rmsnorm", where=["encoder.layers.*.ln_1", "encoder.ln"])
    assert report.sites == (
        *(f"encoder.layers.encoder_layer_{i}.ln_1" for i in (0, 1)),
        "encoder.ln",
    )
    assert type(model.encoder.ln) is RmsNorm
    assert type(model.encoder.layers[0].ln_2) is nn.LayerNorm


@pytest.mark.parametrize(
    ("parts", "where", "message"),
    [
        ([nn.Linear(4, 4)], "*", r"where='\*': .*; the model has none$"),
        ([nn.LayerNorm(4), nn.RMSNorm(4)], ["0", "2"], r"where='2': .*; the model's are 0, 1$"),
        ([nn.LayerNorm(4)], [], "where=''"),
        ([nn.LayerNorm((2, 4))], "*", "^0: LayerNorm is over 2 axes, not the last alone$"),
        ([nn.LayerNorm((2, 4))] * 3, "*", "^0: .* alone; none of 2 others can be swapped either$"),
        ([BareLayerNorm()], "*", "^0: BareLayerNorm is over unknown axes, not the last alone$"),
    ],
)
def test_a_swap_that_finds_no_norm_says_why(
    parts: list[nn.Module], where: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        adanorm.swap(nn.Sequential(*parts), "rmsnorm", where=where)
    with pytest.raises(ValueError, match=r"^LayerNorm: the model itself is a norm"):
        adanorm.swap(nn.LayerNorm(8), "adanorm")


@pytest.mark.parametrize(
    ("norm", "params", "message"),
    [
        ("AdaNorm", {}, r"unknown norm 'AdaNorm': choose from none, .*; did you mean adanorm\?$"),
        ("adanorm", {"c": 1}, "learn_C, eps, and has a choice of numerics and backend$"),
        ("layernorm", {"elementwise_affine": False}, "elementwise_affine is gain and bias here$"),
        (AdaNorm(4), {}, "^AdaNorm: pass the class, not a module of it; its settings are params$"),
        ("adanorm", {"q": 1}, r"norm.params.q: adanorm has no such parameter; it takes k, C"),
        ("weightnorm", {}, "norm weightnorm: it works through the layer before it"),
        (
            "groupnorm",
            {"groups": 3},
            "groups=3: must be a whole number that divides the 4 features",
        ),
        (
            "rmsnorm",
            {"numerics": "released"},
            "norm.numerics=released: rmsnorm has no choice of numerics",
        ),
        (partial(AdaNorm, 4), {}, "give settings by name"),
        (torch.softmax, {}, r"a subclass of torch\.nn\.Module; .*, take functools\.partial$"),
        (partial(torch.softmax, dim=0), {}, r"a subclass of torch\.nn\.Module"),
    ],
)
def test_a_mistake_is_one_line_and_changes_nothing(
    norm: Any, params: dict[str, Any], message: str
) -> None:
    model = nn.Sequential(nn.LayerNorm(3), nn.LayerNorm(4))
    with pytest.raises(ValueError, match=message):
        adanorm.swap(model, norm, params=params)
    assert {type(norm) for norm in model} == {nn.LayerNorm}


def test_a_class_of_the_users_and_a_partial_of_it_are_norms() -> None:
    norms: list[Any] = [partial(FamilyRMSNorm, eps=1.0), FamilyRMSNorm]
    for norm in norms:
        model: Any = nn.Sequential(nn.LayerNorm(4))
        adanorm.swap(model, norm, params={"eps": 1e-3})
        assert isinstance(model[0], FamilyRMSNorm)
        assert model[0].variance_epsilon == 1e-3
    content = io.BytesIO()
    torch.save(model, content)
    content.seek(0)
    again, twin = torch.load(content, weights_only=False), copy.deepcopy(model)
    assert type(again[0]) is type(twin[0]) is type(model[0])
    x = torch.randn(3, 4)
    assert torch.equal(again(x), model(x))
    assert torch.equal(twin(x), model(x))


@pytest.mark.parametrize("norm", ["adanorm", partial(AdaNorm, numerics="released")])
def test_numerics_and_backend_are_settings_too(norm: Any) -> None:
    model: Any = nn.Sequential(nn.LayerNorm(4))
    adanorm.swap(model, norm, params={"numerics": "released", "backend": "eager"})
    assert (model[0].member.numerics, model[0].backend) == ("released", "eager")


class AroundLayerNorm(nn.Module):
    """LayerNorm with its gain outside."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(features, elementwise_affine=False)
        self.weight = nn.Parameter(torch.ones(features))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * self.norm(x)


def test_a_norm_inside_a_norm_is_swapped_with_it_and_a_second_swap_is_refused() -> None:
    model = nn.Sequential(AroundLayerNorm(4))
    assert adanorm.swap(model, "rmsnorm").sites == ("0",)
    assert [*model.state_dict()] == ["0.weight"]
    with pytest.raises(ValueError, match=r"the model's are swapped already: restore them first$"):
        adanorm.swap(model, "rmsnorm")


MOVES: dict[str, Callable[[nn.Module], Any]] = {
    "to a device": lambda model: model.to("meta"),
    "to float64": lambda model: model.double(),
    "to half": lambda model: model.half(),
    "to meta and to_empty": lambda model: model.to("meta").to_empty(device="cpu"),
}


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("move", MOVES.values(), ids=list(MOVES))
def test_norms_move_with_the_model(
    move: Callable[[nn.Module], Any], affine: bool, keep: bool
) -> None:
    def build() -> nn.Module:
        return nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4, elementwise_affine=affine))

    def kinds(model: nn.Module) -> list[Any]:
        return [(name, p.device, p.dtype) for name, p in model.named_parameters()]

    model, plain, after = build(), build(), build()
    adanorm.swap(model, "layernorm", keep=keep)
    for changed_model in (model, plain, after):
        move(changed_model)
    adanorm.swap(after, "layernorm", keep=keep)
    like = next(plain.parameters())
    for changed_model in (model, after):
        assert {(p.device, p.dtype) for p in changed_model.parameters()} == {
            (like.device, like.dtype)
        }
        before = dict(changed_model.named_parameters())
        adanorm.restore(changed_model)
        assert kinds(changed_model) == kinds(plain)
        assert (
            not keep or not affine or changed_model.get_parameter("1.weight") is before["1.weight"]
        )


def test_a_swap_keeps_hooks_mode_and_frozen_and_tied_parameters() -> None:
    model, calls = nn.Sequential(nn.LayerNorm(4), nn.LayerNorm(4), FamilyRMSNorm(4)).eval(), []
    first, second, third = model
    second.weight = first.weight
    first.bias.requires_grad_(False)
    third.requires_grad_(False)
    early = third.register_forward_hook(lambda *_: calls.append("early"))
    adanorm.swap(model, "layernorm")
    assert calls == [], "a norm is tried without its hooks"
    late = model[2].register_forward_pre_hook(lambda *_: calls.append("late"))
    assert model[0].weight is model[1].weight
    assert [p.requires_grad for p in model.parameters()] == [True, False, True, False, False]
    assert not any(part.training for part in model.modules())
    model(torch.randn(2, 4))
    assert calls == ["late", "early"]
    early.remove()
    adanorm.restore(model)
    model(torch.randn(2, 4))
    assert calls == ["late", "early", "late"]
    late.remove()
    model(torch.randn(2, 4))
    assert len(calls) == 3
    assert [p.requires_grad for p in model.parameters()] == [True, False, True, False]


@pytest.mark.parametrize("where", ["cpu", "meta"])
def test_a_norm_is_recognized_on_meta_and_with_any_gain(where: str) -> None:
    with torch.device(where):
        parts = {"rms": FamilyRMSNorm(4), "less": less(4), "shift": shifting(4)}
    for part in parts.values():
        nn.init.zeros_(part.get_parameter("weight"))
    model = nn.ModuleDict(parts)
    assert adanorm.swap(model, "rmsnorm").sites == ("rms",)
    assert model["rms"].weight.device.type == where


def test_kept_gains_and_biases_are_the_same_parameters_behind_the_norm() -> None:
    model = vision_transformer()
    parameters = dict(model.named_parameters())
    for parameter in parameters.values():
        nn.init.normal_(parameter, 1.0)
    keys, ln = list(model.state_dict()), model.encoder.ln
    adanorm.swap(model, "adanorm", keep=True)
    assert list(model.state_dict()) == keys, "a checkpoint of the model still fits"
    assert all(parameters[name] is parameter for name, parameter in model.named_parameters())
    x = torch.randn(2, 5, 16)
    torch.testing.assert_close(model.encoder.ln(x), AdaNorm(16)(x) * ln.weight + ln.bias)
    adanorm.restore(model)
    adanorm.swap(model, "rmsnorm", keep=True)  # has a gain and no bias
    expected = nn.RMSNorm(16, eps=1e-5)(x) * ln.weight + ln.bias
    torch.testing.assert_close(
        model.encoder.ln(x),
        expected,
        atol=1e-5,
        rtol=0,
    )
    adanorm.restore(model)
    adanorm.swap(model, "layernorm", keep=True)
    assert type(model.encoder.ln) is LayerNorm
    assert model.encoder.ln.weight is ln.weight


@pytest.mark.parametrize("norm", ["adanorm", "rmsnorm", "layernorm"])
def test_a_kept_gain_that_is_learned_less_one_stays_so_behind_the_norm(norm: str) -> None:
    x, model = torch.randn(3, 8), nn.Sequential(gemma(8), nn.Linear(8, 8))
    before = model.get_parameter("0.weight")
    nn.init.normal_(before, std=0.1)
    assert adanorm.swap(model, norm, keep=True).sites == ("0",)
    make: Any = {"adanorm": AdaNorm, "rmsnorm": RmsNorm, "layernorm": LayerNorm}[norm]
    torch.testing.assert_close(model[0](x), make(8)(x) * (1 + before))
    gains = [p for name, p in model[0].named_parameters() if "weight" in name and p.requires_grad]
    assert gains == [before], "one gain learns"
    adanorm.restore(model)
    assert model[0].weight is before


class LayerNorm1P(nn.LayerNorm):
    """LayerNorm whose weight is a gain less one, with a bias, as in Megatron, NeMo and Nemotron."""

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(
            x,
            self.normalized_shape,
            self.weight + 1,
            self.bias,
            self.eps,
        )


@pytest.mark.parametrize("norm", ["layernorm", "topk", "adanorm", "rmsnorm", "derf"])
def test_a_kept_bias_beside_a_gain_less_one_is_not_multiplied_by_the_gain(norm: str) -> None:
    x, model = torch.randn(3, 8), nn.Sequential(LayerNorm1P(8), nn.Linear(8, 8))
    old = dict(model.named_parameters())
    for parameter in old.values():
        nn.init.normal_(parameter)
    weight, bias = old["0.weight"], old["0.bias"]
    before = model[0](x)
    adanorm.swap(model, norm, keep=True)
    bare = norm_factory(NormChoice(norm))(8, site="0")
    torch.testing.assert_close(model[0](x), bare(x) * (1 + weight) + bias)
    if norm == "layernorm":
        torch.testing.assert_close(model[0](x), before)
    learned = {name for name, p in model[0].named_parameters() if p.requires_grad}
    assert {"weight", "bias"} <= learned <= {"weight", "bias", "norm.alpha", "norm.shift"}
    adanorm.restore(model)
    assert model[0].weight is weight
    assert model[0].bias is bias


class GemmaLayerNorm(LayerNorm1P):
    """Another that learns its gain less one, from 0."""

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)


class ScalarGainRMSNorm(nn.Module):
    """RMSNorm with one gain for all features, in units of a row's length."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(float(features) ** 0.5))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * F.normalize(x, dim=-1)


@pytest.mark.parametrize("old", [nn.LayerNorm, LayerNorm1P])
@pytest.mark.parametrize(
    ("norm", "params"),
    [
        ("layernorm", {"gain": False}),
        ("layernorm", {"zero_centered": True}),
        (GemmaLayerNorm, {}),
        (ScalarGainRMSNorm, {}),
        ("batchnorm", {"gain": False}),
    ],
)
def test_a_kept_gain_multiplies_the_standardized_row_once_whatever_the_new_norm_learns(
    norm: Any, params: dict[str, Any], old: type[nn.LayerNorm]
) -> None:
    x, model = torch.randn(3, 8), nn.Sequential(old(8), nn.Linear(8, 8)).eval()
    for parameter in model[0].parameters():
        nn.init.normal_(parameter)
    weight, bias = model.get_parameter("0.weight"), model.get_parameter("0.bias")
    bare: Any = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8)).eval()
    adanorm.swap(bare, norm, params=params)
    adanorm.swap(model, norm, params=params, keep=True)
    expected = bare[0](x) * (weight + (old is LayerNorm1P)) + bias
    torch.testing.assert_close(model[0](x), expected)
    learned = [p for p in model[0].parameters() if p.requires_grad]
    assert {id(p) for p in learned} == {id(weight), id(bias)}


def test_a_norm_that_uses_the_size_of_its_gain_alone_is_left() -> None:
    by_size = changed(
        "SizeRMSNorm", lambda n, x: FamilyRMSNorm.forward(n, x) / n.weight * n.weight.abs()
    )
    report = adanorm.swap(nn.ModuleList([by_size(8), nn.LayerNorm(8)]), "rmsnorm", keep=True)
    assert report.sites == ("1",)


class Looping(nn.Module):
    """A model that calls its norms from a plain list."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(4), nn.Linear(4, 4)
        self.steps = [self.norm, self.linear]
        self.linear.bias = self.norm.bias

    def forward(self, x: Tensor) -> Tensor:
        for step in self.steps:
            x = step(x)
        return x


def test_a_swap_says_what_it_leaves_of_the_old_norms_and_that_a_trained_model_changes() -> None:
    model = Looping()
    tied = "linear.bias was the same parameter as norm.bias, and stays as it is"
    held = ".steps holds norm as no module: the old norm stays there"
    assert adanorm.swap(model, "layernorm").notes == (tied, held)
    adanorm.restore(model)
    assert adanorm.swap(model, "layernorm", keep=True).notes == (held,)
    for trained in (nn.LayerNorm(4), LayerNorm1P(4)):
        nn.init.normal_(trained.weight)
        dropped, kept = (
            adanorm.swap(copy.deepcopy(nn.Sequential(trained)), "adanorm", keep=keep).notes
            for keep in (False, True)
        )
        assert len(dropped) == len(kept) == 1
        assert all("its outputs change" in notes[0] for notes in (dropped, kept))
        assert "keep=True keeps" in dropped[0]
    fresh = LayerNorm1P(4)
    nn.init.zeros_(fresh.weight)
    assert adanorm.swap(nn.Sequential(fresh, nn.RMSNorm(4)), "adanorm").notes == ()


def test_the_package_lists_what_it_imports_late_and_a_norm_names_what_it_takes() -> None:
    assert {"swap", "restore"} <= set(dir(adanorm))
    with pytest.raises(
        TypeError, match=r"LayerNorm has no elementwise_affine: .* is gain and bias"
    ):
        LayerNorm(8, elementwise_affine=False)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"RmsNorm has no elementwise_affine: .* is gain here$"):
        RmsNorm(8, elementwise_affine=False)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^AdaNorm has no c: it takes k, C, phi_gradient"):
        AdaNorm(8, c=2.0)  # type: ignore[call-arg]


def test_restore_gives_the_model_back_and_a_copy_can_be_restored_too() -> None:
    model = vision_transformer().eval()
    with torch.no_grad():
        model.heads.head.weight.normal_()
    expected, keys = model(images()), list(model.state_dict())
    names = [name for name, part in model.named_modules() if isinstance(part, nn.LayerNorm)]
    adanorm.swap(model, "adanorm")
    assert len(model.state_dict()) == len(keys) - 10, "what was there is in no state dict"
    assert not torch.equal(model(images()), expected)
    for m in (model, copy.deepcopy(model)):
        assert adanorm.restore(m) == tuple(names)
        assert torch.equal(m(images()), expected)
        assert list(m.state_dict()) == keys
    with pytest.raises(ValueError, match="no norm of this model was swapped"):
        adanorm.restore(model)


def test_a_norm_is_recognized_by_what_it_computes() -> None:
    model = nn.ModuleDict(
        {
            "rms": FamilyRMSNorm(8),
            "layer": WrittenOutLayerNorm(8),
            "bf16": FamilyRMSNorm(8).bfloat16(),
            "channels": torchvision_models().convnext.LayerNorm2d(8),
            "axes": nn.LayerNorm((4, 8)),
            "shift": shifting(8),
            "gated": GatedRMSNorm(8),
            "less": less(8).bfloat16(),
            "gemma": gemma(8),
            "batch": nn.BatchNorm1d(8),
            "shared": nn.ModuleList([norm := nn.LayerNorm(8), norm]),
        }
    )
    report = adanorm.swap(model, "rmsnorm")
    assert report.sites == ("rms", "layer", "bf16", "gemma", "shared.0", "shared.1")
    assert set(report.left) == {"channels", "axes", "shift", "less", "gated"}
    assert report.left["gated"] == "GatedRMSNorm also takes gate"
    assert model.get_submodule("shared.0") is model.get_submodule("shared.1"), (
        "one module stays one"
    )
    assert model["bf16"](torch.randn(2, 8).bfloat16()).dtype == torch.bfloat16


def test_a_norm_over_several_axes_becomes_one_of_the_family_over_the_same() -> None:
    x, model = (
        torch.randn(
            3,
            2,
            4,
            5,
        ),
        nn.Sequential(nn.LayerNorm((2, 4, 5)), nn.Flatten()),
    )
    gain = model.get_parameter("0.weight")
    nn.init.normal_(gain)
    assert adanorm.swap(model, "adanorm", keep=True).sites == ("0",)
    torch.testing.assert_close(
        model(x), (AdaNorm(40)(x.flatten(1)).view(x.shape) * gain).flatten(1)
    )
    for norm in ("none", "layernorm"):
        adanorm.restore(model)
        assert adanorm.swap(model, norm).sites == ("0",)


@pytest.mark.parametrize("keep", [False, True])
def test_a_swapped_model_can_be_exported_and_compiled(keep: bool) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 2)).eval()
    adanorm.swap(model, "adanorm", keep=keep)
    x = torch.randn(4, 8)
    expected = model(x)
    torch.testing.assert_close(
        torch.compile(
            model,
            backend="aot_eager",
            fullgraph=True,
        )(x),
        expected,
    )
    torch.testing.assert_close(torch.export.export(model, (x,)).module()(x), expected)


@pytest.mark.parametrize("keep", [False, True])
def test_every_parameter_of_a_swapped_model_gets_a_gradient(keep: bool, tmp_path: Path) -> None:
    model = nn.Sequential(
        nn.Linear(8, 16),
        nn.LayerNorm(16),
        nn.Linear(16, 16),
        nn.RMSNorm(16),
    )
    adanorm.swap(model, "adanorm", keep=keep)
    distributed.init_process_group(
        "gloo",
        f"file://{tmp_path}/store",
        rank=0,
        world_size=1,
    )
    trained = DistributedDataParallel(model)
    for _ in range(2):  # the second raises where the first has left a gradient out
        trained(torch.randn(3, 8)).pow(3).sum().backward()
    leave_group()
    assert (
        len([parameter for parameter in model.parameters() if parameter.grad is not None])
        == 4 + 3 * keep
    )


def test_the_documented_example_prints_what_its_page_says() -> None:
    torchvision_models()
    page = (PROJECT / "docs" / "any-model.md").read_text("utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    printed = io.StringIO()
    small = code.replace("vit_b_16()", "vit_b_16(image_size=32)").replace("224, 224", "32, 32")
    with redirect_stdout(printed):
        exec(small, {})
    assert f"# {printed.getvalue().strip()}" in code
