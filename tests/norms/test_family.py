"""The paper's norms against formulas written out in float64 NumPy, without autograd."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from adanorm.norms import (
    AdaNorm,
    DetachMean,
    DetachNorm,
    DetachVariance,
    GradMean,
    GradNorm,
    GradOnly,
    GradVariance,
    LayerNorm,
    LayerNormSimple,
    TopK,
)
from tests.norms.cases import assert_same

Array = np.ndarray[tuple[int], np.dtype[np.float64]]
SIMPLE = (LayerNormSimple, DetachNorm, DetachMean, DetachVariance)
BY_GRADIENT = (GradNorm, GradOnly, GradMean, GradVariance)
MEAN_STOPPED, VARIANCE_STOPPED = (
    (DetachNorm, DetachMean, GradVariance),
    (DetachNorm, DetachVariance, GradMean),
)
EPS = 1e-5


def standard_deviation(x: Array, numerics: str) -> float:
    if numerics == "paper":
        return float(np.sqrt(np.sum((x - x.mean()) ** 2) / len(x) + EPS))
    return float(np.sqrt(np.sum((x - x.mean()) ** 2) / (len(x) - 1)) + EPS)


def frozen_forward(cls: type[nn.Module], x: Array, at: Array, numerics: str, k: float, C: float) -> Any:
    """The paper's definition at x, with whatever is detached held at its value for `at`."""
    mean = at.mean() if cls in MEAN_STOPPED else x.mean()
    std = standard_deviation(at if cls in VARIANCE_STOPPED else x, numerics)
    y = (x - mean) / std
    y_at = (at - at.mean()) / standard_deviation(at, numerics)
    if cls is AdaNorm:
        return C * (1 - k * y_at) * y
    if cls is GradNorm:
        return at + y
    return at + y - y_at if cls in BY_GRADIENT else y


def gradient_by_differences(cls: type[nn.Module], x: Array, weights: Array, *rest: Any) -> Array:
    step = 1e-6
    gradient = np.zeros_like(x)
    for i in range(len(x)):
        shift = np.zeros_like(x)
        shift[i] = step
        plus = frozen_forward(cls, x + shift, x, *rest)
        minus = frozen_forward(cls, x - shift, x, *rest)
        gradient[i] = weights @ (plus - minus) / (2 * step)
    return gradient


def forward_and_gradient(norm: nn.Module, x: Array, weights: Array) -> tuple[Array, Array]:
    leaf = torch.tensor(x, requires_grad=True)
    z = norm(leaf)
    torch.autograd.backward(z, torch.tensor(weights))
    assert leaf.grad is not None
    return z.detach().numpy(), leaf.grad.numpy()


@pytest.mark.parametrize("numerics", ["paper", "released"])
@pytest.mark.parametrize("cls", [*SIMPLE, *BY_GRADIENT, AdaNorm])
@pytest.mark.parametrize("shape", [(2,), (7,), (64,), (3, 4)])
def test_forward_and_gradient_follow_the_definition(
    cls: type[nn.Module], numerics: str, shape: tuple[int, ...]
) -> None:
    """Of a row, and of several last axes as one row."""
    features = math.prod(shape)
    random = np.random.default_rng(features)
    x, weights = 3 * random.normal(size=features) + 2, random.normal(size=features)
    k, C = (0.2, 1.5) if cls is AdaNorm else (0.0, 1.0)
    norm = cls(shape, numerics=numerics, **({"k": k, "C": C} if cls is AdaNorm else {}))
    in_shape = nn.Sequential(nn.Unflatten(0, shape), norm, nn.Flatten(0))
    z, gradient = forward_and_gradient(in_shape, x, weights)
    np.testing.assert_allclose(z, frozen_forward(cls, x, x, numerics, k, C), rtol=1e-12, atol=1e-12)
    expected = gradient_by_differences(cls, x, weights, numerics, k, C)
    np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-7)


def test_layernorm_is_torchs_to_the_bit() -> None:
    ours, theirs = LayerNorm(33), nn.LayerNorm(33)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, generator=torch.Generator().manual_seed(0))
    ours.load_state_dict(theirs.state_dict())
    x, results = torch.randn(5, 33, requires_grad=True), []
    for norm in (ours, theirs):
        z = norm(x)
        results.append([z, *torch.autograd.grad(z.square().sum(), [x, *norm.parameters()])])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
    simple = LayerNormSimple(33, backend="eager")
    assert torch.equal(simple(x), nn.functional.layer_norm(x, [33]))


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


def test_norms_that_make_the_same_of_a_row_say_so() -> None:
    one, others = AdaNorm(8), [AdaNorm(8, k=0.2), AdaNorm(8, eps=1e-3), LayerNormSimple(8)]
    assert one.row_function is not None
    assert one.row_function == AdaNorm(8).row_function
    assert all(one.row_function != other.row_function for other in others)
    for other in (AdaNorm((2, 4)), AdaNorm(8, phi_gradient=True)):  # several axes; another gradient
        assert other.row_function is None


def test_a_norm_of_another_width_is_refused() -> None:
    with pytest.raises(ValueError, match="the last axis has 7"):
        AdaNorm(8)(torch.zeros(2, 7))
    assert not AdaNorm(1)(torch.ones(2, 1)).any()
    with pytest.raises(ValueError, match="released numerics divide by H - 1: H=1 is too small"):
        AdaNorm(1, numerics="released")
    with pytest.raises(ValueError, match=r"AdaNorm\(3, 4\): the last axes have \(4, 3\) features"):
        AdaNorm((3, 4))(torch.randn(2, 4, 3))
