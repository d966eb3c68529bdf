"""Functions of single numbers with gain and bias on the CPU, a row read once forward and once backward.

R rows of H features, all arrays contiguous and of one type: x, z and their gradients (R, H), gain and
bias (H,), sums (blocks, 4, H) the blocks' parts of the parameters' gradients. A kernel a function: the
branches on it are decided when it is compiled.
"""

from __future__ import annotations

import math
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

TANH, ERF = 0, 1
INLINED: Any = {"forceinline": True, "fastmath": {"reassoc", "contract", "nsz"}}


def _tanh(u: Number) -> Number:
    """Return tanh(u): in float32 a quotient of polynomials (Eigen's), which vectorizes."""
    return np.tanh(u)


@overload(_tanh, jit_options=INLINED)
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


def _erf(u: Number) -> Number:
    """Return erf(u): in float32 a quotient of polynomials (Eigen's), off by 5e-7 at most."""
    return math.erf(u)


@overload(_erf, jit_options=INLINED)
def _erf_of_a_type(u):  # type: ignore[no-untyped-def]
    if u != types.float32:
        return lambda u: math.erf(u)  # noqa: PLW0108 - Numba compiles a function of its own

    def rational(u):  # type: ignore[no-untyped-def]
        f = np.float32
        u = f(4) if u > f(4) else u
        u = f(-4) if u < f(-4) else u
        s = u * u
        p = s * f(-2.72614225801306e-10) + f(2.77068142495902e-08)
        p = s * p + f(-2.10102402082508e-06)
        p = s * p + f(-5.69250639462346e-05)
        p = s * p + f(-7.34990630326855e-04)
        p = s * p + f(-2.95459980854025e-03)
        p = s * p + f(-1.60960333262415e-02)
        q = s * f(-1.45660718464996e-05) + f(-2.13374055278905e-04)
        q = s * q + f(-1.68282697438203e-03)
        q = s * q + f(-7.37332916720468e-03)
        q = s * q + f(-1.42647390514189e-02)
        return u * p / q

    return rational


def _bell(u: Number) -> Number:
    """Return 2/sqrt(pi) exp(-u^2), erf's slope: in float32 exp(-u^2/16) by its series, to the 16th power."""
    return 2 / math.sqrt(math.pi) * np.exp(-u * u)


@overload(_bell, jit_options=INLINED)
def _bell_of_a_type(u):  # type: ignore[no-untyped-def]
    if u != types.float32:
        return lambda u: 1.1283791670955126 * np.exp(-u * u)

    def power(u):  # type: ignore[no-untyped-def]
        f = np.float32
        s = u * u * f(0.0625)
        s = f(1) if s > f(1) else s  # beyond |u| = 4 it is below 2e-7
        p = s * f(-1 / 362880) + f(1 / 40320)
        p = s * p + f(-1 / 5040)
        p = s * p + f(1 / 720)
        p = s * p + f(-1 / 120)
        p = s * p + f(1 / 24)
        p = s * p + f(-1 / 6)
        p = s * p + f(0.5)
        p = s * p + f(-1)
        p = s * p + f(1)
        p = p * p
        p = p * p
        p = p * p
        p = p * p
        return p * f(1.1283791670955126)

    return power


@compiled
def _value(function: int, u: Number) -> Number:
    return _tanh(u) if function == TANH else _erf(u)


@compiled
def _slope(function: int, u: Number, y: Number) -> Number:
    """Return the derivative at u, where the value is y."""
    return type(y)(1) - y * y if function == TANH else _bell(u)


def _tanh_forward(
    block: int, blocks: int, rows: int, features: int,
    x: Pointer, gain: Pointer, bias: Pointer, z: Pointer, alpha: Number, shift: Number,
) -> None:  # fmt: skip
    """Write gain * tanh(alpha x + shift) + bias."""
    _forward(block, blocks, (rows, features), x, gain, bias, z, alpha, shift, TANH)


def _erf_forward(
    block: int, blocks: int, rows: int, features: int,
    x: Pointer, gain: Pointer, bias: Pointer, z: Pointer, alpha: Number, shift: Number,
) -> None:  # fmt: skip
    """Write gain * erf(alpha x + shift) + bias."""
    _forward(block, blocks, (rows, features), x, gain, bias, z, alpha, shift, ERF)


@compiled
def _forward(
    block: int, blocks: int, shape: tuple[int, int],
    x: Pointer, gain: Pointer, bias: Pointer, z: Pointer, alpha: Number, shift: Number, function: int,
) -> None:  # fmt: skip
    rows, features = shape
    x, gain, bias, z = carray(x, shape), carray(gain, features), carray(bias, features), carray(z, shape)
    for r in range(block * rows // blocks, (block + 1) * rows // blocks):
        _squash(x[r], alpha, shift, gain, bias, z[r], function)


@compiled
def _squash(row: Any, alpha: Number, shift: Number, gain: Any, bias: Any, out: Any, function: int) -> None:
    for i in range(row.shape[0]):
        out[i] = gain[i] * _value(function, alpha * row[i] + shift) + bias[i]


def _tanh_backward(
    block: int, blocks: int, rows: int, features: int,
    dz: Pointer, x: Pointer, gain: Pointer, dx: Pointer, sums: Pointer, alpha: Number, shift: Number,
) -> None:  # fmt: skip
    """Write dl/dx, and the block's parts of dl/dgain, dl/dbias, dl/dalpha and dl/dshift, a part a feature."""
    _backward(block, blocks, (rows, features), dz, x, gain, dx, sums, alpha, shift, TANH)


def _erf_backward(
    block: int, blocks: int, rows: int, features: int,
    dz: Pointer, x: Pointer, gain: Pointer, dx: Pointer, sums: Pointer, alpha: Number, shift: Number,
) -> None:  # fmt: skip
    """Write the same for erf."""
    _backward(block, blocks, (rows, features), dz, x, gain, dx, sums, alpha, shift, ERF)


@compiled
def _backward(
    block: int, blocks: int, shape: tuple[int, int],
    dz: Pointer, x: Pointer, gain: Pointer, dx: Pointer, sums: Pointer, alpha: Number, shift: Number,
    function: int,
) -> None:  # fmt: skip
    rows, features = shape
    dz, x, gain, dx = carray(dz, shape), carray(x, shape), carray(gain, features), carray(dx, shape)
    sums = carray(sums, (blocks, 4, features))
    sums[block, :, :] = 0
    for r in range(block * rows // blocks, (block + 1) * rows // blocks):
        parts = sums[block]
        _squash_back(x[r], dz[r], alpha, shift, gain, parts[0], parts[1], parts[2], parts[3], dx[r], function)


@compiled
def _squash_back(
    row: Any, grad: Any, alpha: Number, shift: Number, gain: Any, dgain: Any, dbias: Any, dalpha: Any,
    dshift: Any, out: Any, function: int,
) -> None:  # fmt: skip
    total = row.dtype.type(0)
    for i in range(row.shape[0]):
        u = alpha * row[i] + shift
        y = _value(function, u)
        du = gain[i] * grad[i] * _slope(function, u, y)
        dgain[i] += grad[i] * y
        dbias[i] += grad[i]
        dalpha[i] += du * row[i]
        total += du
        out[i] = alpha * du
    dshift[0] += total


FORWARD = {"tanh": _tanh_forward, "erf": _erf_forward}
BACKWARD = {"tanh": _tanh_backward, "erf": _erf_backward}


def squashed(function: str, x: Tensor, alpha: float, shift: float, gain: Tensor, bias: Tensor) -> Tensor:
    """Return gain * function(alpha x + shift) + bias, (..., H)."""
    x = dense(x)
    z = torch.empty_like(x)
    tensors = x, gain.contiguous(), bias.contiguous(), z
    run_over_rows(FORWARD[function], "iippppnn", x, *tensors, alpha, shift)
    return z


def squashed_gradient(
    function: str, dz: Tensor, x: Tensor, alpha: float, shift: float, gain: Tensor
) -> tuple[Tensor, Tensor]:
    """Return dl/dx (..., H) and dl/dgain, dl/dbias and parts of dl/dalpha and dl/dshift, (4, H)."""
    x = dense(x)
    dx, sums = torch.empty_like(x), x.new_empty(min(BLOCKS, x.shape[:-1].numel()), 4, x.shape[-1])
    tensors = as_it_lies(dz, x), x, gain.contiguous(), dx, sums
    run_over_rows(BACKWARD[function], "iipppppnn", x, *tensors, alpha, shift)
    return dx, sums.sum(0)
