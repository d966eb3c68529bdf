"""The family, forward and backward, by loops over single numbers."""

from __future__ import annotations

import math

import pytest
import torch

from adanorm.norms.backends import Backend
from adanorm.norms.closed_form import Member, closed_form
from tests.norms.cases import FAMILY

ROWS, H = 4, 5
X, DZ = torch.randn(2, ROWS, H, generator=torch.Generator().manual_seed(0), dtype=torch.float64).unbind()


def by_hand(member: Member) -> tuple[list[list[float]], list[list[float]]]:
    """Return z and dl/dx of X and DZ, a number at a time, by the derivatives of mean and deviation."""
    k, C, detach_mean, detach_variance, eps, numerics = member
    released = numerics == "released"
    z: list[list[float]] = []
    dx: list[list[float]] = []
    for x, dz in zip(X.tolist(), DZ.tolist(), strict=True):
        mean = sum(x) / H
        squares = sum((x_j - mean) ** 2 for x_j in x)
        deviation = math.sqrt(squares / (H - 1))
        std = deviation + eps if released else math.sqrt(squares / H + eps)
        y = [(x_j - mean) / std for x_j in x]
        g = [C * (1 - k * y_j) * dz_j for y_j, dz_j in zip(y, dz, strict=True)]
        z.append([C * (1 - k * y_j) * y_j for y_j in y])
        dx.append([])
        for j in range(H):
            total = 0.0
            for i in range(H):  # dy_i/dx_j
                slope = float(i == j) / std
                if not detach_mean:
                    slope -= 1 / (H * std)
                if not detach_variance:
                    of_std = (x[j] - mean) / ((H - 1) * deviation) if released else (x[j] - mean) / (H * std)
                    slope -= (x[i] - mean) / std**2 * of_std
                total += g[i] * slope
            dx[-1].append(total)
    return z, dx


@pytest.mark.parametrize("member", FAMILY.values(), ids=list(FAMILY))
@pytest.mark.parametrize("backend", ["eager", "fused"])
def test_the_family_is_loops_over_rows_and_features(member: Member, backend: Backend) -> None:
    dtype, precision = (torch.float64, 1e-12) if backend == "eager" else (torch.float32, 1e-6)
    x = X.to(dtype).requires_grad_()
    z = closed_form(x, member, backend=backend)
    (dx,) = torch.autograd.grad(z, x, DZ.to(dtype))
    for part, expected in zip((z, dx), by_hand(member), strict=True):
        torch.testing.assert_close(
            part.double(), torch.tensor(expected, dtype=torch.float64), rtol=precision, atol=precision
        )
