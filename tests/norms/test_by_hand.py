"""The family, forward and backward, by loops over single numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

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
def test_the_family_is_loops_over_rows_and_features(
    settings: dict[str, Any], numerics: Any, backend: Any
) -> None:
    if numerics == "released" and not settings.get("centered", True):
        return  # which has no such numerics
    x = X.clone().requires_grad_()
    z = closed_form(x, **settings, numerics=numerics, backend=backend)
    (dx,) = torch.autograd.grad(z, x, DZ)
    for found, expected in zip((z, dx), by_hand(**settings, released=numerics == "released"), strict=True):
        torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-12)
