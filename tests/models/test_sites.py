"""Where norms sit: counted at run time, in training and in evaluation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from adanorm import tasks
from adanorm.config.compose import compose_experiment
from adanorm.models.convolutional import MnistCnn, Vgg
from adanorm.models.deep_linear import DeepLinear
from adanorm.models.norm_sites import NormSites, PlacedNorms, build_with_norms, compatible_norm
from adanorm.models.sentence_encoder import SentenceEncoder
from adanorm.norms import NORMS, AdaNorm, LayerNorm, NormChoice, norm_factory


def encoder(
    placed: PlacedNorms, *, pre_norm: bool = True, pooling: str = "mean", norm_position: str | None = None
) -> SentenceEncoder:
    torch.manual_seed(0)
    return SentenceEncoder(
        placed,
        vocabulary=20,
        classes=3,
        layers=4,
        dim=16,
        heads=2,
        ffn_dim=24,
        dropout=0.1,
        pre_norm=pre_norm,
        pooling=pooling,  # type: ignore[arg-type]
        norm_position=norm_position,
    )


def cnn(placed: PlacedNorms, norm_axes: str = "all") -> MnistCnn:
    torch.manual_seed(0)
    return MnistCnn(placed, channels=[4, 6], kernel_size=5, norm_axes=norm_axes, classes=10)  # type: ignore[arg-type]


def vgg(placed: PlacedNorms) -> Vgg:
    torch.manual_seed(0)
    return Vgg(placed, blocks=[[4], [6, 6]], norm_axes="channels", classes=10)


def deep_linear(placed: PlacedNorms) -> DeepLinear:
    torch.manual_seed(0)
    return DeepLinear(placed, inputs=5, outputs=2, layers=6, dim=8, init="xavier")


NETWORKS: dict[
    str, tuple[Callable[[PlacedNorms], nn.Module], torch.Tensor, int]
] = {  # a network, its inputs, its number of sites
    "encoder": (encoder, torch.randint(1, 20, (3, 5)), 9),  # two a layer and the closing one
    "cnn": (cnn, torch.randn(3, 1, 28, 28), 2),
    "vgg": (vgg, torch.randn(3, 3, 32, 32), 3),
    "deep_linear": (deep_linear, torch.randn(3, 5), 5),
}


def calls(model: nn.Module, sites: list[str], inputs: torch.Tensor) -> Counter[str]:
    counts: Counter[str] = Counter()

    def count(site: str) -> None:
        model.get_submodule(site).register_forward_hook(lambda *_: counts.update([site]))

    for site in sites:
        count(site)
    model(inputs)
    return counts


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("network", NETWORKS)
def test_every_site_holds_the_norm_and_calls_it_once(network: str, name: str, mode: str) -> None:
    if network == "deep_linear" and NORMS[name].needs_positions:
        pytest.skip("an example is one row of features")
    make_norm = norm_factory(NormChoice(name, {"groups": 2} if name == "groupnorm" else {}))
    make, inputs, number = NETWORKS[network]
    over_rows = NORMS[name].depends_on_batch or NORMS[name].depends_on_positions
    settings = {"norm_axes": "channels"} if network == "cnn" and over_rows else {}
    model, placed = build_with_norms(partial(make, **settings), make_norm, "all")
    model.train(mode == "train")
    assert len(placed.swapped) == number
    assert placed.kept == []
    assert all(type(model.get_submodule(site)) is NORMS[name] for site in placed.swapped)
    with torch.set_grad_enabled(mode == "train"):
        assert calls(model, placed.swapped, inputs) == Counter(dict.fromkeys(placed.swapped, 1))


def test_final_placement_swaps_the_closing_norm_alone() -> None:
    model, placed = build_with_norms(encoder, norm_factory(NormChoice("adanorm")), "final")
    assert placed.swapped == ["closing_norm"]
    assert len(placed.kept) == 8
    assert all(isinstance(model.get_submodule(site), LayerNorm) for site in placed.kept)


def test_globs_choose_sites() -> None:
    globs = ["layers.*.ffn_norm", "closing_norm"]
    model, placed = build_with_norms(encoder, norm_factory(NormChoice("adanorm")), globs)
    assert placed.swapped == [*(f"layers.{i}.ffn_norm" for i in range(4)), "closing_norm"]
    assert sum(isinstance(module, AdaNorm) for module in model.modules()) == 5


def test_a_glob_that_matches_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"placement 'decoder\.\*' matches no site"):
        build_with_norms(encoder, norm_factory(NormChoice("adanorm")), ["layers.*", "decoder.*"])


def test_final_placement_without_a_closing_norm_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"no norm closes a stack here; the sites are norms\.0, norms\.1"):
        build_with_norms(cnn, norm_factory(NormChoice("adanorm")), "final")


@pytest.mark.parametrize("pre_norm", [True, False])
@pytest.mark.parametrize("pooling", ["mean", "max", "first"])
@pytest.mark.parametrize("name", NORMS)
def test_padding_changes_nothing(name: str, pooling: str, pre_norm: bool) -> None:
    model = encoder(
        PlacedNorms(norm_factory(NormChoice(name)), "all"), pre_norm=pre_norm, pooling=pooling
    ).eval()
    tokens = torch.randint(1, 20, (3, 5))
    padded = torch.cat([tokens, torch.zeros(3, 4, dtype=torch.long)], 1)
    torch.testing.assert_close(model(padded), model(tokens))


def test_the_norm_over_all_axes_standardizes_an_image_and_over_channels_a_position() -> None:
    images = torch.randn(2, 1, 28, 28)
    for axes, dims in (("all", (1,)), ("channels", (3,))):
        model = cnn(PlacedNorms(norm_factory(NormChoice("layernorm-simple")), "all"), axes)
        seen: list[torch.Tensor] = []
        model.norms[1].register_forward_hook(lambda *call, seen=seen: seen.append(call[2]))
        model(images)
        assert seen[0].shape == ((2, 6 * 8 * 8) if axes == "all" else (2, 8, 8, 6))
        torch.testing.assert_close(
            seen[0].mean(dims), torch.zeros(seen[0].mean(dims).shape), atol=1e-5, rtol=0
        )


def test_a_batch_may_be_empty() -> None:
    """A process whose share of the last batch is empty still takes part in the update."""
    for model, inputs in (
        (cnn(PlacedNorms(norm_factory(NormChoice("adanorm")), "all")), torch.zeros(0, 1, 28, 28)),
        (
            encoder(PlacedNorms(norm_factory(NormChoice("adanorm")), "all")),
            torch.zeros(0, 5, dtype=torch.long),
        ),
        (vgg(PlacedNorms(norm_factory(NormChoice("adanorm")), "all")), torch.zeros(0, 3, 32, 32)),
        (deep_linear(PlacedNorms(norm_factory(NormChoice("adanorm")), "all")), torch.zeros(0, 5)),
    ):
        logits = model(inputs)
        logits.sum().backward()
        assert logits.shape[0] == 0
        assert all(p.grad is not None and not p.grad.any() for p in model.parameters())


POSITIONS = ("pre", "post", "sandwich")
SENTENCES = torch.randint(1, 20, (3, 5), generator=torch.Generator().manual_seed(0))


def of_task(task: str, *overrides: str) -> tuple[nn.Module, NormSites]:
    """The model of a task at smoke scale, and where its norms are."""
    run = compose_experiment([f"task={task}", "scale=smoke", *overrides])
    torch.manual_seed(0)
    return build_with_norms(tasks.build(run).build_model, norm_factory(run.norm), run.norm.placement)


@pytest.mark.parametrize(
    ("task", "sites"),
    [
        ("rt", {"pre": 9, "post": 8, "sandwich": 17}),
        ("enwik8", {"pre": 5, "post": 4, "sandwich": 9}),
        ("mnist", {"pre": 2, "post": 2, "sandwich": 4}),
        ("ptb", {"pre": 2, "post": 2, "sandwich": 4}),
    ],
)
@pytest.mark.parametrize("position", POSITIONS)
def test_a_norm_sits_before_after_or_on_both_sides(task: str, position: str, sites: dict[str, int]) -> None:
    layers = {"rt": ["model.layers=4"], "enwik8": ["model.layers=2"], "ptb": ["model.layers=2"]}
    overrides = [*layers.get(task, []), f"model.norm_position={position}"]
    _, placed = of_task(task, "norm=adanorm", *overrides)
    assert len(placed.swapped) == sites[position]


def test_where_the_norm_sits_around_an_activation() -> None:
    """Behind it the norm sees no negative number, in front of it does."""
    for position, seen_negative in (("pre", [True]), ("post", [False]), ("sandwich", [True, False])):
        model, placed = of_task("mnist", "norm=layernorm", f"model.norm_position={position}")
        inputs: dict[str, Tensor] = {}
        for site in placed.swapped:
            model.get_submodule(site).register_forward_hook(
                lambda _, x, __, site=site, inputs=inputs: inputs.update({site: x[0]})
            )
        model(torch.randn(3, 1, 28, 28))
        first = [site for site in placed.swapped if site.endswith(".0")]
        assert [bool((inputs[site] < 0).any()) for site in first] == seen_negative


@pytest.mark.parametrize("position", POSITIONS)
def test_weightnorm_lives_in_the_layer_before_its_site(position: str) -> None:
    settings = {"pre_norm": position == "pre"} | (
        {"norm_position": "sandwich"} if position == "sandwich" else {}
    )
    build: Callable[[PlacedNorms], SentenceEncoder] = partial(encoder, **settings)  # type: ignore[arg-type]
    plain = build(PlacedNorms(norm_factory(NormChoice("none")), "all")).eval()
    model, _ = build_with_norms(build, norm_factory(NormChoice("weightnorm")), "all")
    torch.testing.assert_close(model.eval()(SENTENCES), plain(SENTENCES))
    drawn = set(dict(plain.named_parameters()))
    changed = {name.partition(".parametrizations")[0] for name in set(dict(model.named_parameters())) - drawn}
    expected = {f"layers.{i}.{branch}" for i in range(4) for branch in ("attention_output", "ffn_output")}
    assert changed == expected


def test_weightnorm_without_a_layer_before_any_site_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"WeightNorm lives in the layer before a site.*attention_norm"):
        build_with_norms(encoder, norm_factory(NormChoice("weightnorm")), ["layers.0.attention_norm"])


def test_a_norm_where_it_is_undefined_is_named_with_the_reason() -> None:
    for overrides, message in (
        (["task=de-en", "norm=batchnorm"], "batchnorm is not defined in de-en: .*padding"),
        (["task=enwik8", "norm=instancenorm"], "not defined in enwik8: over positions"),
        (["task=ptb", "norm=instancenorm"], "not defined in ptb: .*positions, and the sites show it none$"),
        (["task=mnist", "norm=instancenorm", "model.norm_axes=all"], "choose model.norm_axes=channels"),
        (["task=ptb", "norm=batchnorm", "data.batch_size=1"], "a batch of one example has no statistics"),
        (["task=en-vi", "norm=weightnorm"], "no site has a layer of its own before it"),
    ):
        with pytest.raises(ValueError, match=message):
            compatible_norm(compose_experiment(overrides))
    compatible_norm(compose_experiment(["task=mnist", "norm=batchnorm", "data.batch_size=1"]))
    compatible_norm(compose_experiment(["task=enwik8", "norm=groupnorm", "norm.params.over_positions=false"]))
