"""Norms of a row with gain and bias on the CPU, a row read once forward and once backward.

R rows of H features, all arrays contiguous and of one type: x, z and their gradients (R, H), gain and
bias (H,), squares (R,), sums (blocks, ..., H) the blocks' parts of the parameters' gradients. How many
blocks there are depends on no thread, so a sum does not either.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba.np.numpy_support import carray
from torch import Tensor

from adanorm.norms.kernels.compiling import compiled
from adanorm.norms.kernels.rows import BLOCKS, as_it_lies, dense, run_over_rows

Number = Any  # a NumPy scalar of the arrays' type: a Python float would make all of it float64
Pointer = Any  # to such numbers

SIZES = ("root", "outside", "length")  # what a row is divided by


@compiled
def _inverse(square: Number, counted: int, eps: Number, size: int) -> tuple[Number, Number]:
    """Return 1/size of a row with this sum of squares, and twice its derivative by the sum.

    root: sqrt(mean + eps). outside: sqrt(mean) + eps. length: the root of the sum, at least eps.
    """
    one, zero, number = type(square)(1), type(square)(0), type(square)(counted)
    if size == 0:
        inverse = one / np.sqrt(square / number + eps)
        return inverse, -inverse * inverse * inverse / number
    if size == 1:
        root = np.sqrt(square / number)
        inverse = one / (root + eps)
        return inverse, zero if root == 0 else -inverse * inverse / (number * root)
    length = np.sqrt(square)
    if length < eps:
        return one / eps, zero
    inverse = one / length
    return inverse, -inverse * inverse * inverse


def _scaled(
    block: int, blocks: int, rows: int, features: int,
    x: Pointer, gain: Pointer, z: Pointer, squares: Pointer, counted: int, eps: Number, size: int,
) -> None:  # fmt: skip
    """Write gain * x/size, and a row's sum of squares over its first `counted` features."""
    shape = (rows, features)
    x, gain, z, squares = carray(x, shape), carray(gain, features), carray(z, shape), carray(squares, rows)
    for r in range(block * rows // blocks, (block + 1) * rows // blocks):
        squares[r] = _square(x[r], counted)
        inverse, _ = _inverse(squares[r], counted, eps, size)
        _multiply(x[r], gain, inverse, z[r])


@compiled
def _square(row: Any, counted: int) -> Number:
    total = row.dtype.type(0)
    for i in range(counted):
        total += row[i] * row[i]
    return total


@compiled
def _multiply(row: Any, gain: Any, inverse: Number, out: Any) -> None:
    for i in range(row.shape[0]):
        out[i] = gain[i] * (row[i] * inverse)


def _scaled_gradient(
    block: int, blocks: int, rows: int, features: int,
    dz: Pointer, x: Pointer, gain: Pointer, squares: Pointer, dx: Pointer, sums: Pointer,
    counted: int, eps: Number, size: int,
) -> None:  # fmt: skip
    """Write dl/dx, and the block's part of dl/dgain."""
    shape = (rows, features)
    dz, x, dx = carray(dz, shape), carray(x, shape), carray(dx, shape)
    gain, squares, sums = carray(gain, features), carray(squares, rows), carray(sums, (blocks, features))
    sums[block, :] = 0
    for r in range(block * rows // blocks, (block + 1) * rows // blocks):
        inverse, slope = _inverse(squares[r], counted, eps, size)
        product = _add_products(x[r], dz[r], gain, inverse, sums[block])
        _gradient(x[r], dz[r], gain, inverse, slope * product, counted, dx[r])


@compiled
def _add_products(row: Any, grad: Any, gain: Any, inverse: Number, sums: Any) -> Number:
    """Return the sum of x * gain * dl/dz, and add dl/dz * x/size to sums."""
    total = row.dtype.type(0)
    for i in range(row.shape[0]):
        product = grad[i] * row[i]
        total += product * gain[i]
        sums[i] += product * inverse
    return total


@compiled
def _gradient(
    row: Any, grad: Any, gain: Any, inverse: Number, through_size: Number, counted: int, out: Any
) -> None:
    for i in range(counted):
        out[i] = inverse * (gain[i] * grad[i]) + through_size * row[i]
    _multiply(grad[counted:], gain[counted:], inverse, out[counted:])


# What each takes after its block: see compiling.entry.
TAKES = {
    _scaled: "iippppini",
    _scaled_gradient: "iippppppini",
}


def scaled(x: Tensor, gain: Tensor | None, *, size: str, counted: int, eps: float) -> tuple[Tensor, Tensor]:
    """Return gain * x/size (..., H) and the sums of squares (R,) as the rows lie: see _inverse."""
    x = dense(x)
    z, squares = torch.empty_like(x), x.new_empty(x.shape[:-1].numel())
    run_over_rows(_scaled, TAKES[_scaled], x, x, _gain(gain, x), z, squares, counted, eps, SIZES.index(size))
    return z, squares


def scaled_gradient(
    dz: Tensor, x: Tensor, gain: Tensor | None, squares: Tensor, *, size: str, counted: int, eps: float
) -> tuple[Tensor, Tensor]:
    """Return dl/dx (..., H) and dl/dgain (H,)."""
    x = dense(x)
    dx, sums = torch.empty_like(x), x.new_empty(min(BLOCKS, len(squares)), x.shape[-1])
    tensors = as_it_lies(dz, x), x, _gain(gain, x), squares, dx, sums
    run_over_rows(_scaled_gradient, TAKES[_scaled_gradient], x, *tensors, counted, eps, SIZES.index(size))
    return dx, sums.sum(0)


def _gain(gain: Tensor | None, x: Tensor) -> Tensor:
    return x.new_ones(x.shape[-1]) if gain is None else gain.contiguous()
