"""Norms against torch's functions and formulas of their own, in float64; those of the paper first."""

import copy
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adanorm.norms import (
    AdaNorm,
    LayerNorm,
    LayerNormSimple,
    NormChoice,
    TopK,
    norm_factory,
    rowwise,
)
from adanorm.norms.over_rows import GroupNorm, InstanceNorm
from tests.norms.cases import assert_same

BY_GRADIENT = ("grad-only", "grad-mean", "grad-variance", "grad-scale")
FAMILY = (
    "layernorm-simple",
    "detachnorm",
    "detach-mean",
    "detach-var",
    "gradnorm",
    *BY_GRADIENT,
    "adanorm",
)
MEAN_STOPPED = ("detachnorm", "detach-mean", "grad-variance", "grad-scale")
VARIANCE_STOPPED = ("detachnorm", "detach-var", "grad-mean", "grad-scale")


def deviation(x: Tensor, numerics: str) -> Tensor:
    squares = (x - x.sum(-1, keepdim=True) / x.shape[-1]).square().sum(-1, keepdim=True)
    if numerics == "paper":
        return (squares / x.shape[-1] + 1e-5).sqrt()
    return (squares / (x.shape[-1] - 1)).sqrt() + 1e-5


def formula(name: str, numerics: str, at: Tensor, x: Tensor) -> Tensor:
    """Return the paper's definition for rows x; what it detaches is computed from other rows, `at`."""
    mean = (at if name in MEAN_STOPPED else x).mean(-1, keepdim=True)
    y = (x - mean) / deviation(at if name in VARIANCE_STOPPED else x, numerics)
    y_at = (at - at.mean(-1, keepdim=True)) / deviation(at, numerics)
    if name == "adanorm":
        return 1.5 * (1 - 0.2 * y_at) * y
    if name == "gradnorm":
        return at + y
    return at + y - y_at if name in BY_GRADIENT else y


@pytest.mark.parametrize("numerics", ["paper", "released"])
@pytest.mark.parametrize("name", FAMILY)
@pytest.mark.parametrize("shape", [(2,), (7,), (64,), (3, 4)])
def test_forward_and_gradient_follow_the_definition(
    name: str, numerics: str, shape: tuple[int, ...]
) -> None:
    """Rows lie along the last axis, or along several last axes."""
    x = rows(5, math.prod(shape))
    params = {"k": 0.2, "C": 1.5} if name == "adanorm" else {}
    norm = norm_factory(NormChoice(name, params, numerics))(shape, site="a")
    in_shape = nn.Sequential(nn.Unflatten(1, shape), norm, nn.Flatten())
    assert_same(
        in_shape,
        partial(
            formula,
            name,
            numerics,
            x,
        ),
        x,
    )


def test_layernorm_is_torchs_to_the_bit() -> None:
    ours, theirs = LayerNorm(33), nn.LayerNorm(33)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, generator=torch.Generator().manual_seed(0))
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(5, 33, requires_grad=True)
    results = []
    for norm in (ours, theirs):
        z = norm(x)
        leaves = [x, *norm.parameters()]
        results.append([z, *torch.autograd.grad(z.square().sum(), leaves)])
    for part, expected in zip(*results, strict=True):
        assert torch.equal(part, expected)
    assert torch.equal(LayerNormSimple(33, backend="eager")(x), F.layer_norm(x, [33]))


def test_topk_is_layernorm_of_rows_whose_extremes_are_cut() -> None:
    norm, x = TopK(10, sigma=0.25).double(), torch.randn(50, 10, dtype=torch.float64)

    def written_out(x: Tensor) -> Any:
        ordered = x.sort(-1).values
        return norm_of_rows(x.clamp(ordered[:, 1:2], ordered[:, -2:-1]))  # k = 2

    norm_of_rows = nn.LayerNorm(10).double()
    for ours, theirs in zip(norm.parameters(), norm_of_rows.parameters(), strict=True):
        theirs.data.copy_(nn.init.normal_(ours))
    assert_same(norm, written_out, x)
    assert torch.autograd.gradgradcheck(norm, (x[:3].requires_grad_(),))
    assert TopK(128).k == 1
    assert TopK(512).k == 2
    assert_same(
        TopK(4).double(),
        nn.LayerNorm(4).double(),
        torch.tensor([[2.0, 2, 0, 0], [1, 0, 0, 0]]).double(),
    )


def test_norms_that_compute_the_same_function_of_a_row_say_so() -> None:
    function = AdaNorm(8).row_function
    assert function is not None
    assert AdaNorm(8).row_function == function
    for norm in (AdaNorm(8, k=0.2), AdaNorm(8, eps=1e-3), LayerNormSimple(8)):
        assert norm.row_function not in (None, function)
    several_axes, with_another_gradient = AdaNorm((2, 4)), AdaNorm(8, phi_gradient=True)
    assert several_axes.row_function is with_another_gradient.row_function is None


def test_other_axes_and_rows_of_one_number_in_released_numerics_are_refused() -> None:
    assert not AdaNorm(1)(torch.ones(2, 1)).any()
    with pytest.raises(ValueError, match="released numerics divide by H - 1: H=1 is too small"):
        AdaNorm(1, numerics="released")
    with pytest.raises(ValueError, match=r"AdaNorm\(3, 4\): the last axes have \(4, 3\) features"):
        AdaNorm((3, 4))(torch.randn(2, 4, 3))


B, T, H = 3, 5, 12


def rows(*shape: int) -> Tensor:
    return (
        2
        * torch.randn(
            *shape,
            generator=torch.Generator().manual_seed(0),
            dtype=torch.float64,
        )
        + 1
    )


X = rows(B, T, H)


def learned(norm: nn.Module) -> Any:
    """Return a norm in float64 whose parameters are off their first values."""
    random = torch.Generator().manual_seed(1)
    norm = norm.double()
    with torch.no_grad():
        for parameter in norm.parameters():
            parameter.add_(
                0.3
                * torch.randn(
                    parameter.shape,
                    generator=random,
                    dtype=torch.float64,
                )
            )
    return norm


def rms(x: Tensor, eps: float, counted: int = H) -> Tensor:
    """Return the root mean square of rows, (..., 1), one number added after the other."""
    mean: Any = sum(x[..., i] ** 2 for i in range(counted)) / counted
    return (mean + eps).sqrt().unsqueeze(-1)


def instancenorm(norm: Any, x: Tensor) -> Tensor:
    return F.instance_norm(
        x.movedim(-1, 1),
        weight=norm.weight,
        bias=norm.bias,
    ).movedim(1, -1)


def groupnorm(norm: Any, x: Tensor) -> Tensor:
    return F.group_norm(
        x.movedim(-1, 1),
        norm.groups,
        norm.weight,
        norm.bias,
    ).movedim(1, -1)


def released_layernorm(norm: Any, x: Tensor) -> Any:
    """Return LayerNorm by the unbiased deviation with eps added to it, as a well-known tutorial has it."""
    gain = norm.weight if norm.gain_less_one is None else 1 + norm.gain_less_one
    return gain * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-5) + norm.bias


def adanorm_whose_factor_has_a_gradient(_: Any, x: Tensor) -> Tensor:
    y = F.layer_norm(x, [H])
    return 1.5 * (1 - 0.2 * y) * y


def seednorm(norm: Any, x: Tensor) -> Any:
    dot: Any = sum(x[..., i] * norm.beta[i] for i in range(H))
    scale = (1 - 2 / ((2 * dot).exp() + 1)).unsqueeze(-1)
    return (scale * norm.alpha + norm.weight) * x / rms(x, 1e-2)


def gatednorm(norm: Any, x: Tensor) -> Any:
    y = norm.weight * x / rms(x, 1e-2)
    inner = torch.einsum("...h,rh->...r", y, norm.down)
    gate = torch.einsum("...r,hr->...h", inner / (1 + (-inner).exp()), norm.up)
    return norm.scale * y / (1 + (-gate).exp())


BOUNDED: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": lambda u: 2 * torch.sigmoid(2 * u) - 1,
    "erf": lambda u: 2 * torch.special.ndtr(math.sqrt(2) * u) - 1,
    "arctan": lambda u: torch.atan2(u, torch.ones_like(u)) * 2 / math.pi,
    "isru": lambda u: u / (1 + u * u) ** 0.5,
    "expsign": lambda u: u / abs(u) * (1 - (-abs(u)).exp()),
}


def pointwise(norm: Any, x: Tensor) -> Any:
    u = norm.alpha * x + (0 if norm.shift is None else norm.shift)
    return norm.weight * BOUNDED[norm.function](u) + norm.bias


FORMULAS: list[tuple[nn.Module, Callable[[Any, Tensor], Any]]] = [
    *(
        (
            LayerNorm(
                H,
                gain=gain,
                bias=bias,
            ),
            lambda n, x: F.layer_norm(
                x,
                [H],
                n.weight,
                n.bias,
            ),
        )
        for gain in (True, False)
        for bias in (True, False)
    ),
    *(
        (
            LayerNorm(
                H,
                numerics="released",
                zero_centered=z,
            ),
            released_layernorm,
        )
        for z in (True, False)
    ),
    (
        AdaNorm(
            H,
            k=0.2,
            C=1.5,
            phi_gradient=True,
            backend="eager",
        ),
        adanorm_whose_factor_has_a_gradient,
    ),
    (
        rowwise.RmsNorm(H, eps=1e-2),
        lambda n, x: F.rms_norm(
            x,
            [H],
            n.weight,
            1e-2,
        ),
    ),
    (
        rowwise.RmsNorm(
            H,
            eps=0.5,
            eps_at="outside",
        ),
        lambda n, x: n.weight * x / (rms(x, 0) + 0.5),
    ),
    (
        rowwise.PartialRmsNorm(
            H,
            p=0.0625,
            eps=1e-2,
        ),
        lambda n, x: n.weight * x / rms(x, 1e-2, 1),
    ),
    (
        rowwise.PartialRmsNorm(
            H,
            p=0.25,
            eps=1e-2,
        ),
        lambda n, x: n.weight * x / rms(x, 1e-2, 3),
    ),
    (
        rowwise.PartialRmsNorm(
            H,
            p=0.4,
            eps=1e-2,
        ),
        lambda n, x: n.weight * x / rms(x, 1e-2, 5),
    ),
    (
        rowwise.PartialRmsNorm(
            H,
            p=1,
            eps=1e-2,
        ),
        lambda n, x: n.weight * x / rms(x, 1e-2),
    ),
    (rowwise.SimpleRmsNorm(H, eps=1e-2), lambda _, x: x / rms(x, 1e-2)),
    (rowwise.SimpleRmsNorm(H, size="length"), lambda _, x: x / rms(x, 0) / H**0.5),
    (
        rowwise.PreAffineRmsNorm(H, eps=1e-2),
        lambda n, x: n.weight * n.scale * x / rms(n.scale * x, 1e-2),
    ),
    (rowwise.ScaleNorm(H), lambda n, x: n.gain * x / rms(x, 0) / H**0.5),
    (rowwise.ScaleNorm(H, eps=100.0), lambda n, x: n.gain * x / 100),  # longer than any row
    (rowwise.SeeDNorm(H, eps=1e-2), seednorm),
    (
        rowwise.GatedNorm(
            H,
            rank=2,
            eps=1e-2,
        ),
        gatednorm,
    ),
    (
        rowwise.GatedNorm(
            H,
            rank=2,
            scale=2.0,
            eps=1e-2,
        ),
        gatednorm,
    ),
    (rowwise.Derf(H), pointwise),
    (rowwise.DynamicTanh(H), pointwise),
    *((rowwise.Pointwise(H, function=function), pointwise) for function in rowwise.FUNCTIONS),
    (
        InstanceNorm(
            H,
            gain=True,
            bias=True,
        ),
        instancenorm,
    ),
    *((GroupNorm(H, groups=groups), groupnorm) for groups in (1, 3, H)),
    (
        GroupNorm(H, groups=3, over_positions=False),
        lambda n, x: F.group_norm(
            x.reshape(-1, H),
            3,
            n.weight,
            n.bias,
        ).view(x.shape),
    ),
]


@pytest.mark.parametrize("shape", [(B, H), (B, T, H), (B, 4, T, H)])
@pytest.mark.parametrize(("norm", "formula"), FORMULAS)
def test_a_norm_is_its_formula(
    norm: Any, formula: Callable[[Any, Tensor], Any], shape: tuple[int, ...]
) -> None:
    if len(shape) > 2 or getattr(norm, "groups", 1) < H:  # not a variance of single numbers
        norm = learned(copy.deepcopy(norm))
        assert_same(norm, partial(formula, norm), rows(*shape))


def test_the_gradient_at_zero_is_one_over_an_eps_outside_the_root() -> None:
    zeros = torch.zeros(
        2,
        H,
        dtype=torch.float64,
        requires_grad=True,
    )
    norm = rowwise.RmsNorm(
        H,
        eps=0.5,
        eps_at="outside",
    ).double()
    (gradient,) = torch.autograd.grad(norm(zeros).sum(), zeros)
    torch.testing.assert_close(gradient, torch.full_like(zeros, 2.0))


@pytest.mark.parametrize("numerics", ["paper", "released"])
def test_layernorm_of_images_is_over_channels_height_and_width(numerics: Any) -> None:
    x = rows(B, 2, 3, 4)
    axes = (1, 2, 3)
    if numerics == "paper":
        std = (
            x.var(
                axes,
                correction=0,
                keepdim=True,
            )
            + 1e-3
        ).sqrt()
    else:
        std = x.std(axes, keepdim=True) + 1e-3
    y = (x - x.mean(axes, keepdim=True)) / std
    norm = LayerNorm(
        (2, 3, 4),
        eps=1e-3,
        numerics=numerics,
    ).double()
    torch.testing.assert_close(norm(x), y)


@pytest.mark.parametrize("make", [InstanceNorm, partial(GroupNorm, groups=3)])
def test_statistics_over_positions_leave_padding_out(make: Callable[..., nn.Module]) -> None:
    norm, counted = make(H).double(), (torch.arange(T) % 4 > 0).expand(B, T)
    assert_same(lambda x: norm(x, counted)[:, counted[0]], lambda x: norm(x[:, counted[0]]), X)


def test_a_single_row_is_its_own_mean() -> None:
    norm = InstanceNorm(H).double()
    assert not norm(X[:, :1]).any()
    assert not norm(X, torch.arange(T).expand(B, T) == 2)[:, 2].any()


def test_weightnorm_keeps_the_layer_as_it_was_drawn_and_learns_length_and_direction() -> None:
    layer = nn.Linear(4, H).double()
    x = rows(B, 4)
    before = layer(x)
    rowwise.WeightNorm(H).attach(layer)
    torch.testing.assert_close(layer(x), before)
    parameters = dict(layer.named_parameters())
    length, direction = (parameters[f"parametrizations.weight.original{index}"] for index in (0, 1))
    assert length.numel() == H
    with torch.no_grad():
        length.mul_(2)
        direction.mul_(7)  # which changes nothing
    torch.testing.assert_close(layer(x) - layer.bias, 2 * (before - layer.bias))


def test_adanorm_learns_c_if_learn_c_is_set() -> None:
    plain = AdaNorm(H, C=1.5).double()
    learned = AdaNorm(
        H,
        C=1.5,
        learn_C=True,
    ).double()
    assert_same(learned, plain, X)
    (C,) = learned.parameters()
    (gradient,) = torch.autograd.grad(learned(X).sum(), C)
    torch.testing.assert_close(gradient, plain(X).sum() / 1.5)


def test_a_gate_follows_torchs_seed_and_uses_up_none_of_its_random_numbers() -> None:
    gates = []
    for _ in range(2):
        torch.manual_seed(3)
        gates.append(rowwise.GatedNorm(H))
        after = torch.rand(2)
    torch.manual_seed(3)
    assert torch.equal(after, torch.rand(2))
    assert torch.equal(gates[0].down, gates[1].down)
    assert not torch.equal(gates[0].down, rowwise.GatedNorm(H).down)  # the seed has moved on
    with torch.device("meta"):
        assert rowwise.GatedNorm(H).up.is_meta


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_zero_centered_gain_is_one_plus_what_is_learned_added_in_float32(
    dtype: torch.dtype,
) -> None:
    for cls, name in ((rowwise.RmsNorm, "rms_norm"), (LayerNorm, "layer_norm")):
        norm: Any = cls(H, zero_centered=True)
        plain: Any = cls(H)
        x = X.to(dtype)
        assert torch.equal(norm.to(dtype)(x), plain.to(dtype)(x)), name
        with torch.no_grad():
            norm.gain_less_one.fill_(2**-9)  # less than half a step of bfloat16 at 1
            plain.double().weight.fill_(1 + 2**-9)
            if norm.bias is not None:
                norm.bias.fill_(0.25)
                plain.bias.fill_(0.25)
        exact = plain(x.double())
        tolerance = {torch.float64: 1e-12, torch.float32: 1e-6, torch.bfloat16: 2**-8}[dtype]
        z = norm(x)
        assert z.dtype == dtype
        torch.testing.assert_close(
            z.double(),
            exact,
            rtol=tolerance,
            atol=tolerance,
        )


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("groupnorm", {"groups": 0}, "groups=0: must be a whole number"),
        ("groupnorm", {"groups": -3}, "groups=-3: must be a whole number"),
        ("rmsnorm", {"eps_at": "inside"}, "choose root or outside"),
        ("partial-rmsnorm", {"p": 0}, "p=0: must be above 0 and at most 1"),
        ("partial-rmsnorm", {"p": 1.5}, "p=1.5: must be above 0 and at most 1"),
        ("layernorm", {"eps": 0}, "eps=0: must be above 0"),
        ("layernorm", {"bias": 1}, "norm.params.bias=1: must be true or false"),
        ("rmsnorm", {"eps_at": 1}, "norm.params.eps_at=1: must be a word"),
        ("rmsnorm", {"eps_at": True}, "norm.params.eps_at=True: must be a word"),
        ("adanorm", {"k": True}, "norm.params.k=True: must be a number"),
        ("adanorm", {"k": "much"}, "norm.params.k='much': must be a number"),
        ("none", {"k": 0.1}, "it takes none"),
        ("batchnorm", {"momentum": 1}, "momentum=1: must be above 0 and below 1"),
        ("batchnorm", {"momentum": 0}, "momentum=0: must be above 0 and below 1"),
        ("batchnorm", {"convention": "older"}, "choose new or old"),
        ("batchnorm", {"running_variance": "true"}, "choose unbiased or biased"),
        ("batchnorm-noisy", {"largest_spread": 0.5}, "largest_spread=0.5: must be at least 1"),
        ("powernorm", {"alpha": 0}, "alpha=0: must be above 0"),
        ("powernorm", {"alpha": 1}, "alpha=1: must be above 0"),
        ("powernorm", {"warmup": 0.5}, "warmup=0.5: must be a whole number"),
        ("adanorm", {"k": 1.0}, "k=1.0: must be at least 0 and below 1"),
        ("adanorm", {"k": -0.1}, "k=-0.1"),
        ("adanorm", {"C": 0.0}, "C=0.0"),
        ("adanorm", {"eps": math.inf}, "eps=inf: must be above 0 and finite"),
        ("seednorm", {"alpha": 0}, "alpha=0: must be above 0 and finite"),
        ("gatednorm", {"rank": 0}, "rank=0: must be a whole number above 0"),
        ("gatednorm", {"scale": 0}, "scale=0: must be above 0"),
        (
            "pointwise",
            {"function": "relu"},
            "function='relu': choose tanh, erf, arctan, isru or expsign",
        ),
        ("simple-rmsnorm", {"size": "l1"}, "size='l1': choose rms or length"),
        ("rmsnorm", {"zero_centered": True, "gain": False}, "zero_centered=True: needs gain=true"),
        (
            "layernorm",
            {"zero_centered": True, "gain": False},
            "zero_centered=True: needs gain=true",
        ),
    ],
)
def test_mistakes_name_the_setting(name: str, params: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        norm_factory(NormChoice(name, params))


def test_mistakes_that_a_site_or_a_tensor_shows_are_named() -> None:
    with pytest.raises(ValueError, match="backend='fast': choose auto, eager or fused"):
        norm_factory(NormChoice("adanorm", backend="fast"))
    with pytest.raises(
        ValueError, match="groups=8: must be a whole number that divides the 20 features"
    ):
        norm_factory(NormChoice("groupnorm"))(20, site="norms.0")
    with pytest.raises(ValueError, match="has no positions"):
        InstanceNorm(H)(torch.ones(B, H))


def test_a_constant_mean_leaves_three_functions_and_a_bound_for_all_widths_leaves_phi() -> None:
    """Theorem 2: of powers, tanh and |y| only the span of 1, y and y^2 has a constant mean.

    It leaves b (y^2 - 1) beside C (1 - k y). The mean of z is then -C k + b mean(y^3), whose last
    part grows with H: only a bound that holds for every H excludes b.
    """
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(4000, 12, generator=generator, dtype=torch.float64) ** 3
    y = (rows - rows.mean(1, keepdim=True)) / rows.std(1, keepdim=True, correction=0)
    functions = [y**power for power in range(9)] + [y.tanh(), y.abs()]
    means = torch.stack([function.mean(1) for function in functions], 1)
    varying = means - means.mean(0)
    sizes = torch.linalg.svdvals(varying / varying.std(0).clamp(min=1e-9))
    assert [*(sizes > 1e-6 * sizes[0])].count(True) == len(functions) - 3
    for power, constant in ((0, 1), (1, 0), (2, 1)):
        assert torch.allclose(means[:, power], torch.tensor(float(constant)).double())
    thirds = []
    for width in (64, 1024, 16384):
        row = torch.zeros(1, width, dtype=torch.float64)
        row[0, 0] = 1.0
        y = LayerNormSimple(width, eps=1e-12)(row)
        thirds.append(y.pow(3).mean().item())
        assert thirds[-1] == pytest.approx((width - 2) / (width - 1) ** 0.5, rel=1e-3)
        assert y.max().item() == pytest.approx((width - 1) ** 0.5, rel=1e-3)
    assert thirds[0] < thirds[1] / 3 < thirds[2] / 9, "no bound holds for all widths"
