"""SeeDNorm on the CPU, a row read once forward and once backward.

R rows of H features, all arrays contiguous and of one type: x, z and their gradients (R, H), alpha,
beta and gain (H,), found (R, 2) a row's sum of squares and tanh(x . beta), sums (blocks, 3, H) the
blocks' parts of the gradients of alpha, beta and gain.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba.np.numpy_support import carray
from torch import Tensor

from adanorm.norms.kernels.compiling import compiled
from adanorm.norms.kernels.rows import BLOCKS, as_it_lies, dense
from adanorm.norms.kernels.teams import run

Number = Any  # a NumPy scalar of the arrays' type: a Python float would make all of it float64
Pointer = Any  # to such numbers

LEAST = 64  # rows of a block; its sums are written before and added after


def _forward(
    block: int, blocks: int, rows: int, features: int,
    x: Pointer, alpha: Pointer, beta: Pointer, gain: Pointer, z: Pointer, found: Pointer, eps: Number,
) -> None:  # fmt: skip
    """Write (tanh(x . beta) alpha + gain) x/RMS(x)."""
    shape = (rows, features)
    x, z, found = carray(x, shape), carray(z, shape), carray(found, (rows, 2))
    alpha, beta, gain = carray(alpha, features), carray(beta, features), carray(gain, features)
    for r in range(block * rows // blocks, (block + 1) * rows // blocks):
        square, dot = _sums(x[r], beta)
        found[r, 0], found[r, 1] = square, np.tanh(dot)
        _rescale(x[r], alpha, gain, found[r, 1], _inverse(square, features, eps), z[r])


@compiled
def _inverse(square: Number, features: int, eps: Number) -> Number:
    """Return 1/RMS of a row with this sum of squares."""
    return type(square)(1) / np.sqrt(square / type(square)(features) + eps)


@compiled
def _sums(row: Any, beta: Any) -> tuple[Number, Number]:
    square, dot = row.dtype.type(0), row.dtype.type(0)
    for i in range(row.shape[0]):
        square += row[i] * row[i]
        dot += row[i] * beta[i]
    return square, dot


@compiled
def _rescale(row: Any, alpha: Any, gain: Any, scale: Number, inverse: Number, out: Any) -> None:
    for i in range(row.shape[0]):
        out[i] = (scale * alpha[i] + gain[i]) * (row[i] * inverse)


def _backward(
    block: int, blocks: int, rows: int, features: int,
    dz: Pointer, x: Pointer, alpha: Pointer, beta: Pointer, gain: Pointer, found: Pointer, dx: Pointer,
    sums: Pointer, eps: Number,
) -> None:  # fmt: skip
    """Write dl/dx, and the block's parts of dl/dalpha, dl/dbeta and dl/dgain."""
    shape = (rows, features)
    dz, x, dx, found = carray(dz, shape), carray(x, shape), carray(dx, shape), carray(found, (rows, 2))
    alpha, beta, gain = carray(alpha, features), carray(beta, features), carray(gain, features)
    sums = carray(sums, (blocks, 3, features))
    sums[block, :, :] = 0
    for r in range(block * rows // blocks, (block + 1) * rows // blocks):
        scale, inverse = found[r, 1], _inverse(found[r, 0], features, eps)
        by_alpha, by_gain = _products(
            x[r], dz[r], alpha, gain, scale * inverse, inverse, sums[block, 0], sums[block, 2]
        )
        # Through tanh, and through RMS: d(1/RMS)/dx = -x/(H RMS^3).
        dot = inverse * by_alpha * (x.dtype.type(1) - scale * scale)
        through = -(inverse * inverse * inverse) / x.dtype.type(features) * (scale * by_alpha + by_gain)
        _gradient(x[r], dz[r], alpha, beta, gain, scale, inverse, dot, through, sums[block, 1], dx[r])


@compiled
def _products(
    row: Any, grad: Any, alpha: Any, gain: Any, scaled: Number, inverse: Number, dalpha: Any, dgain: Any
) -> tuple[Number, Number]:
    """Return the sums of x * dl/dz * alpha and of x * dl/dz * gain; add to the parameters' gradients."""
    by_alpha, by_gain = row.dtype.type(0), row.dtype.type(0)
    for i in range(row.shape[0]):
        product = grad[i] * row[i]
        by_alpha += product * alpha[i]
        by_gain += product * gain[i]
        dalpha[i] += product * scaled
        dgain[i] += product * inverse
    return by_alpha, by_gain


@compiled
def _gradient(
    row: Any, grad: Any, alpha: Any, beta: Any, gain: Any, scale: Number, inverse: Number, dot: Number,
    through: Number, dbeta: Any, out: Any,
) -> None:  # fmt: skip
    for i in range(row.shape[0]):
        out[i] = (scale * alpha[i] + gain[i]) * inverse * grad[i] + dot * beta[i] + through * row[i]
        dbeta[i] += dot * row[i]


def rescaled(x: Tensor, alpha: Tensor, beta: Tensor, gain: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Return (tanh(x . beta) alpha + gain) x/RMS(x), (..., H), and what `rescaled_gradient` needs of rows."""
    x = dense(x)
    blocks, rows, features = _sizes(x)
    z, found = torch.empty_like(x), x.new_empty(rows, 2)
    alpha, beta, gain = alpha.contiguous(), beta.contiguous(), gain.contiguous()
    run(
        _forward, "iippppppn", x.dtype, rows, features,
        x.data_ptr(), alpha.data_ptr(), beta.data_ptr(), gain.data_ptr(), z.data_ptr(), found.data_ptr(), eps,
        blocks=blocks, elements=rows * features,
    )  # fmt: skip
    return z, found


def rescaled_gradient(
    dz: Tensor, x: Tensor, alpha: Tensor, beta: Tensor, gain: Tensor, found: Tensor, eps: float
) -> tuple[Tensor, ...]:
    """Return dl/dx (..., H) and dl/dalpha, dl/dbeta and dl/dgain, each (H,)."""
    x = dense(x)
    dz = as_it_lies(dz, x)
    blocks, rows, features = _sizes(x)
    dx, sums = torch.empty_like(x), x.new_empty(3 * blocks, features)
    alpha, beta, gain = alpha.contiguous(), beta.contiguous(), gain.contiguous()
    run(
        _backward, "iippppppppn", x.dtype, rows, features,
        dz.data_ptr(), x.data_ptr(), alpha.data_ptr(), beta.data_ptr(), gain.data_ptr(), found.data_ptr(),
        dx.data_ptr(), sums.data_ptr(), eps,
        blocks=blocks, elements=rows * features,
    )  # fmt: skip
    return dx, *(sums if blocks == 1 else sums.view(blocks, 3, features).sum(0)).unbind()


def _sizes(x: Tensor) -> tuple[int, int, int]:
    """Return the number of blocks, of rows and of features."""
    features = x.shape[-1]
    rows = x.numel() // features
    return min(BLOCKS, max(1, rows // LEAST)), rows, features
