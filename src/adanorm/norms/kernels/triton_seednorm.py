"""SeeDNorm on CUDA: a program takes whole rows into registers, by Triton.

Tensors are (R, H) and contiguous, alpha, beta and gain (H,), found (R, 2) a row's sum of squares and
tanh(x . beta). Arithmetic and sums are in float32, or float64 for float64. Where the gradient is
computed each of at most PROGRAMS programs takes every PROGRAMS-th tile of rows, and has sums (3, H)
of its own of the gradients of alpha, beta and gain: how many there are depends on the shape alone.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from adanorm.norms.kernels.triton_rows import ELEMENTS, ELEMENTS_A_WARP

PROGRAMS = 512


@triton.jit
def _row(pointer, i, features, wide: tl.constexpr):
    """Return a parameter (1, BLOCK), 0 beyond its end."""
    return tl.load(pointer + i, mask=i < features, other=0.0).to(wide)[None, :]


@triton.jit
def _tanh(u):
    """Return tanh(u), off by a rounding of 1."""
    power = tl.exp(-2.0 * tl.abs(u))
    size = (1.0 - power) / (1.0 + power)
    return tl.where(u < 0.0, -size, size)


@triton.jit
def _forward(
    x, alpha, beta, gain, z, found, rows, features,
    eps: tl.constexpr, wide: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    i = tl.arange(0, BLOCK)
    inside = (r < rows)[:, None] & (i < features)[None, :]
    at = r[:, None] * features + i[None, :]
    row = tl.load(x + at, mask=inside, other=0.0).to(wide)
    square = tl.sum(row * row, 1)
    scale = _tanh(tl.sum(row * _row(beta, i, features, wide), 1))
    tl.store(found + 2 * r, square, mask=r < rows)
    tl.store(found + 2 * r + 1, scale, mask=r < rows)
    inverse = 1.0 / tl.sqrt(square / features + eps)
    whole = scale[:, None] * _row(alpha, i, features, wide) + _row(gain, i, features, wide)
    tl.store(z + at, whole * (row * inverse[:, None]), mask=inside)


@triton.jit
def _backward(
    dz, x, alpha, beta, gain, found, dx, sums, rows, features, programs,
    eps: tl.constexpr, wide: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    a, b, g = _row(alpha, i, features, wide), _row(beta, i, features, wide), _row(gain, i, features, wide)
    dalpha, dbeta, dgain = tl.zeros((BLOCK,), wide), tl.zeros((BLOCK,), wide), tl.zeros((BLOCK,), wide)
    for tile in range(program, tl.cdiv(rows, ROWS), programs):
        r = tl.cast(tile, tl.int64) * ROWS + tl.arange(0, ROWS)
        inside = (r < rows)[:, None] & (i < features)[None, :]
        at = r[:, None] * features + i[None, :]
        row = tl.load(x + at, mask=inside, other=0.0).to(wide)
        grad = tl.load(dz + at, mask=inside, other=0.0).to(wide)
        square = tl.load(found + 2 * r, mask=r < rows, other=1.0)
        scale = tl.load(found + 2 * r + 1, mask=r < rows, other=0.0)
        inverse = 1.0 / tl.sqrt(square / features + eps)
        product = grad * row
        by_alpha, by_gain = tl.sum(product * a, 1), tl.sum(product * g, 1)
        # Through tanh, and through RMS: d(1/RMS)/dx = -x/(H RMS^3).
        dot = inverse * by_alpha * (1.0 - scale * scale)
        through = -(inverse * inverse * inverse) / features * (scale * by_alpha + by_gain)
        whole = (scale[:, None] * a + g) * inverse[:, None]
        tl.store(dx + at, whole * grad + dot[:, None] * b + through[:, None] * row, mask=inside)
        dalpha += tl.sum(product * (scale * inverse)[:, None], 0)
        dbeta += tl.sum(dot[:, None] * row, 0)
        dgain += tl.sum(product * inverse[:, None], 0)
    first = sums + tl.cast(program, tl.int64) * 3 * features + i
    tl.store(first, dalpha, mask=i < features)
    tl.store(first + features, dbeta, mask=i < features)
    tl.store(first + 2 * features, dgain, mask=i < features)


def rescaled(x: Tensor, alpha: Tensor, beta: Tensor, gain: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Return (tanh(x . beta) alpha + gain) x/RMS(x), (..., H), and what `rescaled_gradient` needs of rows.

    In the type that x and gain are promoted to.
    """
    x, rows = x.contiguous(), x.shape[:-1].numel()
    z = torch.empty_like(x, dtype=torch.promote_types(x.dtype, gain.dtype))
    found = x.new_empty(rows, 2, dtype=_wide(z))
    parameters = (each.contiguous() for each in (alpha, beta, gain))
    tile = _tile(x.shape[-1])
    _launch(_forward, triton.cdiv(rows, tile["ROWS"]), (x, *parameters, z, found), rows, eps=eps, **tile)
    return z, found


def rescaled_gradient(
    dz: Tensor, x: Tensor, alpha: Tensor, beta: Tensor, gain: Tensor, found: Tensor, eps: float
) -> tuple[Tensor, ...]:
    """Return dl/dx (..., H) and dl/dalpha, dl/dbeta and dl/dgain, each (H,)."""
    x, rows, tile = x.contiguous(), len(found), _tile(x.shape[-1])
    programs = min(PROGRAMS, triton.cdiv(rows, tile["ROWS"]))
    dx, sums = torch.empty_like(x), found.new_empty(programs, 3, x.shape[-1])
    parameters = (each.contiguous() for each in (alpha, beta, gain))
    tensors = (dz.contiguous(), x, *parameters, found, dx, sums)
    _launch(_backward, programs, tensors, rows, programs, eps=eps, **tile)
    return dx, *sums.sum(0).unbind()


def _wide(like: Tensor) -> torch.dtype:
    return torch.float64 if like.dtype == torch.float64 else torch.float32


def _tile(features: int) -> dict[str, int]:
    """Return the rows and the width of what a program takes at a time, and its warps."""
    block = triton.next_power_of_2(features)
    together = max(1, ELEMENTS // block)
    return {"ROWS": together, "BLOCK": block, "num_warps": min(32, together * block // ELEMENTS_A_WARP)}


def _launch(
    kernel: Any, programs: int, tensors: tuple[Tensor, ...], *sizes: int, eps: float, **tile: int
) -> None:
    x = tensors[1] if kernel is _backward else tensors[0]
    wide = tl.float64 if _wide(x) == torch.float64 else tl.float32
    rows, *others = sizes
    with torch.cuda.device_of(x):  # type: ignore[no-untyped-call]
        kernel[(programs,)](*tensors, rows, x.shape[-1], *others, eps=eps, wide=wide, **tile)
