"""Norms since AdaNorm against formulas of their own in float64, or SciPy's functions."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import special
from torch import Tensor, nn
from torch.nn import functional as F

from adanorm.norms import LayerNorm, NormChoice, norm_factory
from adanorm.norms.pointwise import FUNCTIONS, Derf, DynamicTanh, Pointwise
from adanorm.norms.rowwise import GatedNorm, PreAffineRmsNorm, RmsNorm, SeeDNorm, SimpleRmsNorm
from tests.norms.cases import assert_same

B, T, H = 3, 4, 6
X = 2 * torch.randn(B, T, H, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 1


def learned(norm: nn.Module) -> Any:
    """Return a norm in float64 whose parameters are off their first values."""
    random = torch.Generator().manual_seed(1)
    norm = norm.double()
    with torch.no_grad():
        for parameter in norm.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=random, dtype=torch.float64))
    return norm


def rms(x: Tensor, eps: float) -> Tensor:
    """Return the root mean square of rows, (..., 1), one number added after the other."""
    mean: Any = sum(x[..., i] ** 2 for i in range(H)) / H
    root: Tensor = (mean + eps).sqrt().unsqueeze(-1)
    return root


def test_seednorm_is_its_formula() -> None:
    norm = learned(SeeDNorm(H, eps=1e-2))

    def formula(x: Tensor) -> Any:
        dot: Any = sum(x[..., i] * norm.beta[i] for i in range(H))
        scale = (1 - 2 / ((2 * dot).exp() + 1)).unsqueeze(-1)
        return (scale * norm.alpha + norm.weight) * x / rms(x, 1e-2)

    assert_same(norm, formula, X)


def test_the_gradients_of_seednorms_parameters_are_finite_differences() -> None:
    norm = learned(SeeDNorm(H))
    parameters = [parameter.detach().requires_grad_() for parameter in norm.parameters()]
    names = [name for name, _ in norm.named_parameters()]

    def called(*values: Tensor) -> Any:
        return torch.func.functional_call(norm, dict(zip(names, values, strict=True)), (X,))

    assert torch.autograd.gradcheck(called, parameters)


def test_seednorm_is_rmsnorm_until_beta_is_learned_and_sees_the_scale_of_a_row_from_then_on() -> None:
    first, later = SeeDNorm(H, eps=1e-12).double(), learned(SeeDNorm(H, eps=1e-12))
    torch.testing.assert_close(first(X), RmsNorm(H, eps=1e-12).double()(X))
    torch.testing.assert_close(first(3 * X), first(X))
    assert (later(3 * X) - later(X)).abs().max() > 0.01
    # As x grows, tanh saturates: the gain stays between gain - alpha and gain + alpha.
    limits = (later.weight - later.alpha, later.weight + later.alpha)
    y = X / rms(X, 1e-12)
    found = later(1e6 * X) / y
    for limit in found.unbind(-2):
        assert all(any(torch.allclose(row, one) for one in limits) for row in limit)


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_gatednorm_is_rmsnorm_behind_a_gate_of_low_rank(scale: float) -> None:
    norm = learned(GatedNorm(H, rank=2, scale=scale, eps=1e-2))
    assert (norm.down.shape, norm.up.shape) == ((2, H), (H, 2))

    def formula(x: Tensor) -> Any:
        y = norm.weight * x / rms(x, 1e-2)
        inner = torch.einsum("bth,rh->btr", y, norm.down)
        gate = torch.einsum("btr,hr->bth", inner / (1 + (-inner).exp()), norm.up)
        return scale * y / (1 + (-gate).exp())

    assert_same(norm, formula, X)


def test_a_gate_of_twice_a_half_starts_at_rmsnorm() -> None:
    norm = GatedNorm(H, rank=1, scale=2.0).double()
    torch.testing.assert_close(norm(X), RmsNorm(H).double()(X), rtol=0.01, atol=0.01)


def test_a_gate_is_drawn_by_torchs_seed_and_takes_none_of_its_random_numbers() -> None:
    gates = []
    for _ in range(2):
        torch.manual_seed(3)
        gates.append(GatedNorm(H))
        after = torch.rand(2)
    torch.manual_seed(3)
    assert torch.equal(after, torch.rand(2))
    assert torch.equal(gates[0].down, gates[1].down)
    assert not torch.equal(gates[0].down, GatedNorm(H).down)  # the seed has moved on
    with torch.device("meta"):
        assert GatedNorm(H).up.is_meta


def test_preaffine_rmsnorm_scales_before_and_after() -> None:
    norm = learned(PreAffineRmsNorm(H, eps=1e-2))
    assert_same(norm, lambda x: norm.weight * norm.scale * x / rms(norm.scale * x, 1e-2), X)


def test_simple_rmsnorm_has_no_gain_and_rows_of_mean_square_or_length_one() -> None:
    assert_same(SimpleRmsNorm(H, eps=1e-2), lambda x: x / rms(x, 1e-2), X)
    unit = SimpleRmsNorm(H, size="length")
    assert_same(unit, lambda x: F.normalize(x, dim=-1), X)
    assert not [*unit.parameters()]


def test_derf_is_twice_the_normal_distribution_less_one() -> None:
    norm = Derf(H)
    torch.testing.assert_close(norm(X.float()), torch.erf(X.float() / 2))
    norm = learned(norm)

    def formula(x: Tensor) -> Any:
        inner = math.sqrt(2) * (norm.alpha * x + norm.shift)
        return norm.weight * (2 * torch.special.ndtr(inner) - 1) + norm.bias

    assert_same(norm, formula, X)


ELSEWHERE: dict[str, Any] = {  # of NumPy's arrays
    "tanh": lambda u: 2 * special.expit(2 * u) - 1,
    "erf": special.erf,
    "arctan": lambda u: np.angle(1 + 1j * u) * 2 / math.pi,
    "isru": lambda u: u / (1 + u * u) ** 0.5,
    "expsign": lambda u: u / abs(u) * (1 - math.e ** -abs(u)),
}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_pointwise_function_is_odd_bounded_and_its_formula(function: str) -> None:
    norm = learned(Pointwise(H, function=function))
    u = (norm.alpha * X + norm.shift).detach()
    value = torch.as_tensor(ELSEWHERE[function](u.numpy()))
    torch.testing.assert_close(norm(X), norm.weight * value + norm.bias)
    f, far = FUNCTIONS[function], torch.tensor([50.0, 1e4], dtype=torch.float64)
    torch.testing.assert_close(f(-u), -f(u))
    torch.testing.assert_close(f(far), torch.ones(2, dtype=torch.float64), rtol=0.02, atol=0)


def test_dynamic_tanh_and_derf_are_pointwise_functions() -> None:
    for named, general in (
        (DynamicTanh(H, alpha=0.8), Pointwise(H, function="tanh", alpha=0.8, shift=False)),
        (Derf(H, alpha=0.8), Pointwise(H, function="erf", alpha=0.8)),
    ):
        general.load_state_dict(named.state_dict())
        assert torch.equal(named(X.float()), general(X.float()))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_zero_centered_gain_is_one_plus_what_is_learned_added_in_float32(dtype: torch.dtype) -> None:
    for cls, name in ((RmsNorm, "rms_norm"), (LayerNorm, "layer_norm")):
        norm: Any = cls(H, zero_centered=True)
        plain: Any = cls(H)
        x = X.to(dtype)
        assert torch.equal(norm.to(dtype)(x), plain.to(dtype)(x)), name
        with torch.no_grad():
            norm.gain_less_one.fill_(2**-9)  # less than half a step of bfloat16 at 1
            plain.double().weight.fill_(1 + 2**-9)
            for bias in (one.bias for one in (norm, plain) if one.bias is not None):
                bias.fill_(0.25)
        exact = plain(x.double())
        tolerance = {torch.float64: 1e-12, torch.float32: 1e-6, torch.bfloat16: 2**-8}[dtype]
        found = norm(x)
        assert found.dtype == dtype
        torch.testing.assert_close(found.double(), exact, rtol=tolerance, atol=tolerance)


def test_weight_decay_draws_a_zero_centered_gain_to_one() -> None:
    norm: Any = learned(RmsNorm(H, zero_centered=True)).float()
    optimizer = torch.optim.AdamW(norm.parameters(), lr=0.1, weight_decay=1.0)
    for _ in range(100):
        norm.gain_less_one.grad = torch.zeros(H)
        optimizer.step()
    torch.testing.assert_close(norm(X.float()), RmsNorm(H)(X.float()), rtol=1e-4, atol=1e-4)


def test_torchs_encoder_layer_does_not_take_a_zero_centered_layernorm_for_its_own() -> None:
    layer = nn.TransformerEncoderLayer(H, 2, 8, dropout=0.0, batch_first=True).double()
    zero_centered = copy.deepcopy(layer)
    zero_centered.norm1, zero_centered.norm2 = (LayerNorm(H, zero_centered=True).double() for _ in "12")
    with torch.no_grad():
        torch.testing.assert_close(zero_centered.eval()(X), layer.eval()(X))


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("seednorm", {"alpha": 0}, "alpha=0: must be above 0 and finite"),
        ("gatednorm", {"rank": 0}, "rank=0: must be a whole number above 0"),
        ("gatednorm", {"scale": 0}, "scale=0: must be above 0"),
        ("pointwise", {"function": "relu"}, "function='relu': choose tanh, erf, arctan, isru, expsign"),
        ("simple-rmsnorm", {"size": "l1"}, "size='l1': choose rms or length"),
        ("rmsnorm", {"zero_centered": True, "gain": False}, "zero_centered=True: needs gain=true"),
        ("layernorm", {"zero_centered": True, "gain": False}, "zero_centered=True: needs gain=true"),
    ],
)
def test_mistakes_name_the_setting(name: str, params: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        norm_factory(NormChoice(name, params))
