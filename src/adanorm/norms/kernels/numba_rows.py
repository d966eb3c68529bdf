"""The closed form on the CPU, a row at a time, compiled by Numba: no compiler is needed.

A row is read from memory once and found in the cache when it is read again. Letters as in
norms.closed_form; R rows, all arrays (R, H), contiguous and in float32, variance (R,). Of a
transposed (T, B, H) the rows of x stay where they lie, batch by batch, and `across` is B, else 0:
fairseq's layers hand over nothing else, and to copy it would cost as much as the norm.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba.np.numpy_support import carray
from torch import Tensor

from adanorm.norms.kernels.compiling import Kernel, compiled
from adanorm.norms.kernels.teams import run

Rows = np.ndarray[tuple[int, int], np.dtype[Any]]
Row = np.ndarray[tuple[int], np.dtype[Any]]
Number = Any  # np.float32: a Python float would make all of it float64
Pointer = Any  # to such numbers

BLOCKS = 32  # of rows


@compiled
def _mean(row: Row) -> Number:
    total = row.dtype.type(0)
    for i in range(row.shape[0]):
        total += row[i]
    return total / row.dtype.type(row.shape[0])


@compiled
def _place(r: int, rows: int, across: int) -> int:
    """Return where row r of x lies."""
    return r if across == 0 else (r % across) * (rows // across) + r // across


@compiled
def _scales(variance: Number, features: int, eps: Number, released: bool) -> tuple[Number, Number]:
    """Return 1/std and the factor of the variance's term.

    With released numerics y = c/(s + eps) for c = x - mean and s the unbiased deviation; ds/dx =
    c/((H-1) s) then brings the factor H/(H-1) * (s + eps)/s.
    """
    if variance == np.inf:
        variance -= variance  # NaN, as torch's LayerNorm has it, and not the zeros of 1/inf
    one, unbiased = type(variance)(1), type(variance)(features) / type(variance)(features - 1)
    if not released:
        return one / np.sqrt(variance + eps), one
    std = np.sqrt(variance * unbiased)
    # A constant row has y = 0 and no variance term; its 0/0 must not reach the gradient.
    share = type(variance)(0) if std == 0 else unbiased * (std + eps) / std
    return one / (std + eps), share


@compiled
def _forward(
    first: int, last: int, x: Rows, across: int, z: Rows, variance: Row,
    k: Number, C: Number, eps: Number, released: bool,
) -> None:  # fmt: skip
    features = x.shape[1]
    for r in range(first, last):
        row, out = x[_place(r, x.shape[0], across)], z[r]
        mean, total = _mean(row), x.dtype.type(0)
        for i in range(features):
            total += (row[i] - mean) * (row[i] - mean)
        variance[r] = total / x.dtype.type(features)
        inverse_std, _ = _scales(variance[r], features, eps, released)
        for i in range(features):
            y = (row[i] - mean) * inverse_std
            out[i] = (C - C * k * y) * y


@compiled
def _backward(
    first: int, last: int, dz: Rows, x: Rows, across: int, variance: Row, dx: Rows,
    k: Number, C: Number, detach_mean: bool, detach_variance: bool, eps: Number, released: bool,
) -> None:  # fmt: skip
    features = x.shape[1]
    for r in range(first, last):
        row, grad, out = x[_place(r, x.shape[0], across)], dz[r], dx[r]
        mean = _mean(row)  # again: cheaper than a second statistic kept in memory
        inverse_std, share = _scales(variance[r], features, eps, released)
        sum_g, sum_gy = x.dtype.type(0), x.dtype.type(0)
        for i in range(features):
            y = (row[i] - mean) * inverse_std
            g = (C - C * k * y) * grad[i]
            sum_g += g
            sum_gy += g * y
        mean_g = x.dtype.type(0) if detach_mean else sum_g / x.dtype.type(features)
        mean_gy = x.dtype.type(0) if detach_variance else share * sum_gy / x.dtype.type(features)
        for i in range(features):
            y = (row[i] - mean) * inverse_std
            g = (C - C * k * y) * grad[i]
            out[i] = inverse_std * (g - mean_g - y * mean_gy)


@compiled
def _scale(
    first: int, last: int, dz: Rows, variance: Row, dx: Rows, C: Number, eps: Number, released: bool
) -> None:
    """Write dl/dx = C/std * dl/dz: mean, variance and factor are constants, and x is not needed."""
    for r in range(first, last):
        inverse_std, _ = _scales(variance[r], dz.shape[1], eps, released)
        for i in range(dz.shape[1]):
            dx[r, i] = C * inverse_std * dz[r, i]


def _forward_at(
    block: int, blocks: int, rows: int, features: int, x: Pointer, across: int, z: Pointer, variance: Pointer,
    k: Number, C: Number, eps: Number, released: bool,
) -> None:  # fmt: skip
    shape, first, last = (rows, features), block * rows // blocks, (block + 1) * rows // blocks
    arrays = carray(x, shape), across, carray(z, shape), carray(variance, rows)
    _forward(first, last, *arrays, k, C, eps, released)


def _backward_at(
    block: int, blocks: int, rows: int, features: int,
    dz: Pointer, x: Pointer, across: int, variance: Pointer, dx: Pointer,
    k: Number, C: Number, detach_mean: bool, detach_variance: bool, eps: Number, released: bool,
) -> None:  # fmt: skip
    shape, first, last = (rows, features), block * rows // blocks, (block + 1) * rows // blocks
    arrays = carray(dz, shape), carray(x, shape), across, carray(variance, rows), carray(dx, shape)
    _backward(first, last, *arrays, k, C, detach_mean, detach_variance, eps, released)


def _scale_at(
    block: int, blocks: int, rows: int, features: int,
    dz: Pointer, variance: Pointer, dx: Pointer, C: Number, eps: Number, released: bool,
) -> None:  # fmt: skip
    shape, first, last = (rows, features), block * rows // blocks, (block + 1) * rows // blocks
    _scale(first, last, carray(dz, shape), carray(variance, rows), carray(dx, shape), C, eps, released)


# What each takes after its block: see compiling.entry.
TAKES = {_forward_at: "iipippnnnb", _backward_at: "iippippnnbbnb", _scale_at: "iipppnnb"}


def forward(
    x: Tensor, k: float, C: float, detach_mean: bool, detach_variance: bool, eps: float, numerics: str
) -> tuple[Tensor, Tensor]:
    """Return z (..., H) in x's type and the biased variance (...) in float32."""
    rows, across = in_memory_order(x)
    z, variance = rows.new_empty(x.shape), rows.new_empty(x.shape[:-1])
    addresses = rows.data_ptr(), across, z.data_ptr(), variance.data_ptr()
    _run(_forward_at, z, *addresses, k, C, eps, numerics == "released")
    return z.to(x.dtype), variance


def backward(
    grad: Tensor, x: Tensor | None, variance: Tensor,
    k: float, C: float, detach_mean: bool, detach_variance: bool, eps: float, numerics: str,
) -> Tensor:  # fmt: skip
    """Return dl/dx (..., H) in the type of grad, dl/dz; x is None where it is a multiple of dl/dz."""
    dz, variance, released = grad.float().contiguous(), variance.contiguous(), numerics == "released"
    dx = torch.empty_like(dz)
    if x is None:
        _run(_scale_at, dx, dz.data_ptr(), variance.data_ptr(), dx.data_ptr(), C, eps, released)
    else:
        rows, across = in_memory_order(x)
        addresses = dz.data_ptr(), rows.data_ptr(), across, variance.data_ptr(), dx.data_ptr()
        _run(_backward_at, dx, *addresses, k, C, detach_mean, detach_variance, eps, released)
    return dx.to(grad.dtype)


def _run(kernel: Kernel, like: Tensor, *arguments: Any) -> None:
    """Run a kernel over all rows of tensors (..., H)."""
    features = like.shape[-1]
    rows = like.numel() // max(features, 1)
    blocks = min(BLOCKS, rows)
    run(kernel, TAKES[kernel], rows, features, *arguments, blocks=blocks, elements=like.numel())


def in_memory_order(x: Tensor) -> tuple[Tensor, int]:
    """Return x with its rows in an order that memory may have, and `across`."""
    rows = x.float()
    if rows.dim() == 3 and not rows.is_contiguous():
        batch_first = rows.transpose(0, 1)
        if batch_first.is_contiguous():
            return batch_first, rows.shape[1]
    return rows.contiguous(), 0
