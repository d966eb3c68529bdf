"""The closed form on CUDA: a program takes whole rows into registers, by Triton.

Letters as in norms.functional; tensors are (R, H) and contiguous, variance (R,). Arithmetic and
sums are in float32, or float64 for float64. Made for H up to 16,384; wider rows spill registers.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

ELEMENTS = 2048  # of narrow rows that a program takes together
ELEMENTS_A_WARP = 512  # 16 a thread: two loads of 16 bytes in half precision


@triton.jit
def _places(rows, features, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Return this program's rows (ROWS,), which elements exist and where they lie (ROWS, BLOCK)."""
    r = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    i = tl.arange(0, BLOCK)
    return r, (r < rows)[:, None] & (i < features)[None, :], r[:, None] * features + i[None, :]


@triton.jit
def _shifted(x, at, inside, features, wide: tl.constexpr, centered: tl.constexpr):
    """Return x - mean, 0 where there is no element: two passes, so that nothing cancels."""
    row = tl.load(x + at, mask=inside, other=0.0).to(wide)
    if centered:
        row = tl.where(inside, row - (tl.sum(row, 1) / features)[:, None], 0.0)
    return row


@triton.jit
def _scales(variance, eps: tl.constexpr, unbiased: tl.constexpr):
    """Return 1/std and the factor of the variance's term: see norms.eager."""
    share = tl.full(variance.shape, 1.0, variance.dtype)
    std = tl.sqrt(variance + eps)
    if unbiased > 0:
        spread = tl.sqrt(variance * unbiased)
        std = spread + eps
        # A constant row has y = 0 and no variance term; its 0/0 must not reach the gradient.
        share = tl.where(spread == 0.0, 0.0, unbiased * std / tl.where(spread == 0.0, 1.0, spread))
    return 1.0 / std, share


@triton.jit
def _forward(
    x, z, variance, rows, features,
    k: tl.constexpr, C: tl.constexpr, eps: tl.constexpr, unbiased: tl.constexpr, centered: tl.constexpr,
    wide: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    r, inside, at = _places(rows, features, ROWS, BLOCK)
    shifted = _shifted(x, at, inside, features, wide, centered)
    found = tl.sum(shifted * shifted, 1) / features
    tl.store(variance + r, found, mask=r < rows)
    inverse_std, _ = _scales(found, eps, unbiased)
    y = shifted * inverse_std[:, None]
    tl.store(z + at, (C - C * k * y) * y, mask=inside)


@triton.jit
def _backward(
    dz, x, variance, dx, rows, features,
    k: tl.constexpr, C: tl.constexpr, eps: tl.constexpr, unbiased: tl.constexpr, centered: tl.constexpr,
    detach_mean: tl.constexpr, detach_variance: tl.constexpr, needs_x: tl.constexpr,
    wide: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    r, inside, at = _places(rows, features, ROWS, BLOCK)
    g = C * tl.load(dz + at, mask=inside, other=0.0).to(wide)
    found = tl.load(variance + r, mask=r < rows, other=1.0)
    inverse_std, share = _scales(found, eps, unbiased)
    if needs_x:
        y = _shifted(x, at, inside, features, wide, centered) * inverse_std[:, None]
        g = g - k * y * g
        mean_gy = share * tl.sum(g * y, 1) / features
    result = g
    if not detach_mean:
        result = result - (tl.sum(g, 1) / features)[:, None]
    if not detach_variance:
        result = result - y * mean_gy[:, None]
    tl.store(dx + at, inverse_std[:, None] * result, mask=inside)


def forward(
    x: Tensor,
    k: float,
    C: float,
    detach_mean: bool,
    detach_variance: bool,
    eps: float,
    released: bool,
    centered: bool,
) -> tuple[Tensor, Tensor]:
    """Return z (..., H) in x's type and the biased variance (...) in float32, float64 for float64.

    The variance is the mean square where x is not `centered`.
    """
    x = x.contiguous()
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    z, variance = torch.empty_like(x), x.new_empty(x.shape[:-1], dtype=wide)
    _launch(_forward, x, (x, z, variance), released, k=k, C=C, eps=eps, centered=centered)
    return z, variance


def backward(
    grad: Tensor,
    x: Tensor | None,
    variance: Tensor,
    k: float,
    C: float,
    detach_mean: bool,
    detach_variance: bool,
    eps: float,
    released: bool,
    centered: bool,
) -> Tensor:
    """Return dl/dx (..., H) in the type of grad, dl/dz; x is None where the gradient does not need it."""
    dz = grad.contiguous()
    dx = torch.empty_like(dz)
    tensors = (dz, dz if x is None else x.contiguous(), variance, dx)
    detached = {"detach_mean": detach_mean, "detach_variance": detach_variance, "needs_x": x is not None}
    _launch(_backward, dz, tensors, released, k=k, C=C, eps=eps, centered=centered, **detached)
    return dx


def _launch(
    kernel: Any, like: Tensor, tensors: tuple[Tensor, ...], released: bool, **settings: float | bool
) -> None:
    """Run a kernel over all rows of tensors of this shape, on their device."""
    features = like.shape[-1]
    if like.numel() == 0:
        return
    rows, block = like.numel() // features, triton.next_power_of_2(features)
    together = max(1, ELEMENTS // block)
    shape = {"ROWS": together, "BLOCK": block, "num_warps": min(32, together * block // ELEMENTS_A_WARP)}
    wide = tl.float64 if like.dtype == torch.float64 else tl.float32
    unbiased = features / (features - 1) if released else 0.0  # of the variance; 0: paper's numerics
    with torch.cuda.device_of(like):  # type: ignore[no-untyped-call]
        kernel[(triton.cdiv(rows, together),)](
            *tensors, rows, features, unbiased=unbiased, wide=wide, **settings, **shape
        )
