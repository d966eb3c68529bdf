"""The family by two nested loops over single numbers, and what gain and bias can undo."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from adanorm.norms import BatchNorm, LayerNorm
from adanorm.norms.functional import closed_form
from tests.norms.cases import FAMILY

ROWS, H = 4, 5
X, DZ = torch.randn(2, ROWS, H, generator=torch.Generator().manual_seed(0), dtype=torch.float64).unbind()


def by_hand(
    k: float = 0.0,
    C: float = 1.0,
    detach_mean: bool = False,
    detach_variance: bool = False,
    centered: bool = True,
    released: bool = False,
) -> tuple[list[list[float]], list[list[float]]]:
    """Return z and dl/dx of X and DZ, a number at a time, by the derivatives of mean and deviation."""
    z: list[list[float]] = []
    dx: list[list[float]] = []
    for x, dz in zip(X.tolist(), DZ.tolist(), strict=True):
        mean = sum(x) / H if centered else 0.0
        squares = sum((x_j - mean) ** 2 for x_j in x)
        deviation = math.sqrt(squares / (H - 1))
        std = deviation + 1e-5 if released else math.sqrt(squares / H + 1e-5)
        y = [(x_j - mean) / std for x_j in x]
        g = [C * (1 - k * y_j) * dz_j for y_j, dz_j in zip(y, dz, strict=True)]
        z.append([C * (1 - k * y_j) * y_j for y_j in y])
        dx.append([])
        for j in range(H):
            total = 0.0
            for i in range(H):  # dy_i/dx_j
                slope = float(i == j) / std
                if centered and not detach_mean:
                    slope -= 1 / (H * std)
                if not detach_variance:
                    of_std = (x[j] - mean) / ((H - 1) * deviation) if released else (x[j] - mean) / (H * std)
                    slope -= (x[i] - mean) / std**2 * of_std
                total += g[i] * slope
            dx[-1].append(total)
    return z, dx


@pytest.mark.parametrize("backend", ["eager", "fused"])
@pytest.mark.parametrize("numerics", ["paper", "released"])
@pytest.mark.parametrize("settings", FAMILY.values(), ids=list(FAMILY))
def test_the_family_is_two_nested_loops(settings: dict[str, Any], numerics: Any, backend: Any) -> None:
    if numerics == "released" and not settings.get("centered", True):
        return  # which has no such numerics
    x = X.clone().requires_grad_()
    z = closed_form(x, **settings, numerics=numerics, backend=backend)
    (dx,) = torch.autograd.grad(z, x, DZ)
    for found, expected in zip((z, dx), by_hand(**settings, released=numerics == "released"), strict=True):
        torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-12)


def set_to(norm: Any, gain: Tensor, bias: Tensor) -> Any:
    with torch.no_grad():
        norm.weight.copy_(gain.expand_as(norm.weight))
        norm.bias.copy_(bias.expand_as(norm.bias))
    return norm


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_batchnorm_with_the_deviation_as_gain_and_the_mean_as_bias_is_the_identity(scale: float) -> None:
    """Ioffe & Szegedy 2015, section 3: of each feature, and so of the whole batch."""
    x = scale * X + 1
    gain = (x.var(0, correction=0) + 1e-5).sqrt()
    torch.testing.assert_close(set_to(BatchNorm(H).double(), gain, x.mean(0))(x), x)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_layernorm_recovers_a_row_with_its_own_deviation_and_mean_and_no_other(scale: float) -> None:
    """Its gain and bias are the features', so that they undo the statistics of one row alone."""
    x = scale * X + 1
    for row in range(ROWS):
        gain = (x[row].var(correction=0) + 1e-5).sqrt()
        z = set_to(LayerNorm(H).double(), gain, x[row].mean())(x)
        torch.testing.assert_close(z[row], x[row])
        others = [other for other in range(ROWS) if other != row]
        assert ((z - x)[others].abs().amax(-1) > 0.01 * scale).all()
