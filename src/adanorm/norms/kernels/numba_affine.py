"""Norms of a row with gain and bias on the CPU, a row read once forward and once backward.

R rows of H features, all arrays contiguous and of one type: x, z and their gradients (R, H), gain and
bias (H,), squares (R,), sums (blocks, ..., H) the blocks' parts of the parameters' gradients. How many
blocks there are depends on no thread, so a sum does not either.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba.core import types
from numba.extending import overload
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


def _tanh(u: Number) -> Number:
    """Return tanh(u): in float32 a quotient of polynomials (Eigen's), which vectorizes."""
    return np.tanh(u)


@overload(_tanh, jit_options={"forceinline": True, "fastmath": {"reassoc", "contract", "nsz"}})
def _tanh_of_a_type(u):  # type: ignore[no-untyped-def]
    if u != types.float32:
        return lambda u: np.tanh(u)  # noqa: PLW0108 - Numba compiles a function of its own

    def rational(u):  # type: ignore[no-untyped-def]
        f = np.float32
        u = f(7.90531110763549805) if u > f(7.90531110763549805) else u
        u = f(-7.90531110763549805) if u < f(-7.90531110763549805) else u
        s = u * u
        p = s * f(-2.76076847742355e-16) + f(2.00018790482477e-13)
        p = s * p + f(-8.60467152213735e-11)
        p = s * p + f(5.12229709037114e-08)
        p = s * p + f(1.48572235717979e-05)
        p = s * p + f(6.37261928875436e-04)
        p = s * p + f(4.89352455891786e-03)
        q = s * f(1.19825839466702e-06) + f(1.18534705686654e-04)
        q = s * q + f(2.26843463243900e-03)
        q = s * q + f(4.89352518554385e-03)
        return u * p / q

    return rational


def _squashed(
    block: int, blocks: int, rows: int, features: int,
    x: Pointer, gain: Pointer, bias: Pointer, z: Pointer, alpha: Number,
) -> None:  # fmt: skip
    """Write gain * tanh(alpha x) + bias."""
    shape = (rows, features)
    x, gain, bias, z = carray(x, shape), carray(gain, features), carray(bias, features), carray(z, shape)
    for r in range(block * rows // blocks, (block + 1) * rows // blocks):
        _squash(x[r], alpha, gain, bias, z[r])


@compiled
def _squash(row: Any, alpha: Number, gain: Any, bias: Any, out: Any) -> None:
    for i in range(row.shape[0]):
        out[i] = gain[i] * _tanh(alpha * row[i]) + bias[i]


def _squashed_gradient(
    block: int, blocks: int, rows: int, features: int,
    dz: Pointer, x: Pointer, gain: Pointer, dx: Pointer, sums: Pointer, alpha: Number,
) -> None:  # fmt: skip
    """Write dl/dx, and the block's parts of dl/dgain, dl/dbias and dl/dalpha, this a part a feature."""
    shape = (rows, features)
    dz, x, gain, dx = carray(dz, shape), carray(x, shape), carray(gain, features), carray(dx, shape)
    sums = carray(sums, (blocks, 3, features))
    sums[block, :, :] = 0
    for r in range(block * rows // blocks, (block + 1) * rows // blocks):
        _squash_back(x[r], dz[r], alpha, gain, sums[block, 0], sums[block, 1], sums[block, 2], dx[r])


@compiled
def _squash_back(
    row: Any, grad: Any, alpha: Number, gain: Any, dgain: Any, dbias: Any, dalpha: Any, out: Any
) -> None:
    one = row.dtype.type(1)
    for i in range(row.shape[0]):
        y = _tanh(alpha * row[i])
        du = gain[i] * grad[i] * (one - y * y)
        dgain[i] += grad[i] * y
        dbias[i] += grad[i]
        dalpha[i] += du * row[i]
        out[i] = alpha * du


# What each takes after its block: see compiling.entry.
TAKES = {
    _scaled: "iippppini",
    _scaled_gradient: "iippppppini",
    _squashed: "iippppn",
    _squashed_gradient: "iipppppn",
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


def squashed(x: Tensor, alpha: float, gain: Tensor, bias: Tensor) -> Tensor:
    """Return gain * tanh(alpha x) + bias, (..., H)."""
    x = dense(x)
    z = torch.empty_like(x)
    run_over_rows(_squashed, TAKES[_squashed], x, x, gain.contiguous(), bias.contiguous(), z, alpha)
    return z


def squashed_gradient(dz: Tensor, x: Tensor, alpha: float, gain: Tensor) -> tuple[Tensor, Tensor]:
    """Return dl/dx (..., H) and dl/dgain, dl/dbias and the parts of dl/dalpha by feature, (3, H)."""
    x = dense(x)
    dx, sums = torch.empty_like(x), x.new_empty(min(BLOCKS, x.shape[:-1].numel()), 3, x.shape[-1])
    run_over_rows(
        _squashed_gradient,
        TAKES[_squashed_gradient],
        x,
        as_it_lies(dz, x),
        x,
        gain.contiguous(),
        dx,
        sums,
        alpha,
    )
    return dx, sums.sum(0)


def _gain(gain: Tensor | None, x: Tensor) -> Tensor:
    return x.new_ones(x.shape[-1]) if gain is None else gain.contiguous()
