"""The closed form on the CPU, a row at a time, compiled by Numba: no compiler is needed.

A row is read from memory once and found in the cache when it is read again. Letters as in
norms.functional; R rows, all arrays (R, H), contiguous and of one type, variance (R,).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

Rows = np.ndarray[tuple[int, int], np.dtype[Any]]
Row = np.ndarray[tuple[int], np.dtype[Any]]
Number = Any  # a NumPy scalar of the arrays' type: a Python float would make all of it float64

GRAIN = 1 << 16  # elements that are worth a thread
BLOCKS = 8  # a thread: one that comes late takes fewer
SINGLE_PASS = (torch.float32, torch.float64)

# Sums may be reordered, which vectorizes them; infinities and NaN keep their meaning.
_compiled = njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})


@_compiled
def _mean(row: Row) -> Number:
    total = row.dtype.type(0)
    for i in range(row.shape[0]):
        total += row[i]
    return total / row.dtype.type(row.shape[0])


@_compiled
def _scales(variance: Number, features: int, eps: Number, released: bool) -> tuple[Number, Number]:
    """Return 1/std and the factor of the variance's term: see norms.eager."""
    one, unbiased = type(variance)(1), type(variance)(features) / type(variance)(features - 1)
    if not released:
        return one / np.sqrt(variance + eps), one
    std = np.sqrt(variance * unbiased)
    # A constant row has y = 0 and no variance term; its 0/0 must not reach the gradient.
    share = type(variance)(0) if std == 0 else unbiased * (std + eps) / std
    return one / (std + eps), share


@_compiled
def _forward(
    first: int,
    last: int,
    x: Rows,
    z: Rows,
    variance: Row,
    k: Number,
    C: Number,
    eps: Number,
    released: bool,
    centered: bool,
) -> None:
    features = x.shape[1]
    for r in range(first, last):
        row, out = x[r], z[r]
        mean, total = _mean(row) if centered else x.dtype.type(0), x.dtype.type(0)
        for i in range(features):
            total += (row[i] - mean) * (row[i] - mean)
        variance[r] = total / x.dtype.type(features)
        inverse_std, _ = _scales(variance[r], features, eps, released)
        for i in range(features):
            y = (row[i] - mean) * inverse_std
            out[i] = (C - C * k * y) * y


@_compiled
def _backward(
    first: int,
    last: int,
    dz: Rows,
    x: Rows,
    variance: Row,
    dx: Rows,
    k: Number,
    C: Number,
    detach_mean: bool,
    detach_variance: bool,
    eps: Number,
    released: bool,
    centered: bool,
) -> None:
    features = x.shape[1]
    for r in range(first, last):
        row, grad, out = x[r], dz[r], dx[r]
        # Again: cheaper than a second statistic kept in memory.
        mean = _mean(row) if centered else x.dtype.type(0)
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


@_compiled
def _scale(
    first: int, last: int, dz: Rows, x: Rows, variance: Row, dx: Rows, C: Number, eps: Number, released: bool
) -> None:
    """Write dl/dx = C/std * dl/dz: mean, variance and factor are constants, and x is not needed."""
    for r in range(first, last):
        inverse_std, _ = _scales(variance[r], dz.shape[1], eps, released)
        for i in range(dz.shape[1]):
            dx[r, i] = C * inverse_std * dz[r, i]


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
    wide = _wide(x)
    z, variance = torch.empty_like(wide), wide.new_empty(wide.shape[:-1])
    rows, number = _rows(wide), _number(wide)
    settings = (number(k), number(C), number(eps), released, centered)
    _share_out(_forward, rows, rows, _rows(z), _row(variance), *settings)
    return z.to(x.dtype), variance


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
    dz = _wide(grad)
    wide = dz if x is None else _wide(x)
    dx, number = torch.empty_like(wide), _number(wide)
    arrays = (_rows(dz), _rows(wide), _row(variance), _rows(dx))
    if x is None:
        _share_out(_scale, arrays[0], *arrays, number(C), number(eps), released)
    else:
        settings = (number(k), number(C), detach_mean, detach_variance, number(eps), released, centered)
        _share_out(_backward, arrays[0], *arrays, *settings)
    return dx.to(grad.dtype)


def _wide(x: Tensor) -> Tensor:
    return (x if x.dtype in SINGLE_PASS else x.float()).detach().contiguous()


def _rows(x: Tensor) -> Rows:
    return x.view(-1, x.shape[-1]).numpy()


def _row(x: Tensor) -> Row:
    return x.detach().view(-1).numpy()


def _number(x: Tensor) -> Callable[[float], Number]:
    return np.float64 if x.dtype == torch.float64 else np.float32


def _share_out(kernel: Callable[..., None], rows: Rows, *arguments: Any) -> None:
    """Run a kernel over all rows with torch's number of threads, this one among them."""
    threads = min(torch.get_num_threads(), rows.size // GRAIN)
    if threads < 2:
        kernel(0, len(rows), *arguments)
        return
    step = -(-len(rows) // (BLOCKS * threads))
    starts = iter(range(0, len(rows), step))  # next() on it is atomic: no block is done twice

    def work() -> None:
        for start in starts:
            kernel(start, min(start + step, len(rows)), *arguments)

    others = [_pool(os.getpid(), threads - 1).submit(work) for _ in range(threads - 1)]
    work()
    for other in others:
        if not other.cancel():  # one that has not begun finds nothing left to do
            other.result()


@cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Return this process's threads; a forked child has none of its parent's."""
    return ThreadPoolExecutor(threads, thread_name_prefix=f"norms-{process}")
