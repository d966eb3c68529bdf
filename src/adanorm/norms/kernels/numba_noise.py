"""Noise on the CPU: numbers of its own for each element, drawn in the pass that uses them.

x and out (R, H), spread and mean (H,), float32. What is drawn is a hash of seed, row and
feature, so it depends on no thread: Wellons's lowbias32 of the feature, keyed by the row's splitmix64
(Steele et al. 2014). Normal numbers come in pairs (Box & Muller 1958), one for a feature of either half.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import types
from numba.extending import intrinsic
from numba.np.numpy_support import carray
from torch import Tensor

from adanorm.norms.kernels.compiling import compiled
from adanorm.norms.kernels.splitmix import splitmix64
from adanorm.norms.kernels.teams import run

Number = Any  # a NumPy scalar
Pointer = Any  # to float32
BLOCKS = 32  # of rows


def noisy(
    x: Tensor, spread: Tensor, mean: Tensor, *, jitter: float, seed: int, shifts: bool = True
) -> Tensor:
    """Return s * x + m (..., H) for s ~ N(spread, jitter) and m ~ U(mean - jitter, mean + jitter).

    The same seed draws the same s and m. Unless it `shifts`, m is left out: so the gradient is scaled.
    """
    x, rows = x.contiguous(), x.shape[:-1].numel()
    out, blocks = torch.empty_like(x), min(BLOCKS, rows)
    room = x.new_empty(blocks, 2, x.shape[-1])
    places = (each.data_ptr() for each in (x, spread.contiguous(), mean.contiguous(), out, room))
    arguments = rows, x.shape[-1], *places, jitter, seed, shifts
    run(_noisy, "iipppppnib", x.dtype, *arguments, blocks=blocks, elements=x.numel())
    return out


def _noisy(
    block: int, blocks: int, rows: int, features: int,
    x: Pointer, spread: Pointer, mean: Pointer, out: Pointer, room: Pointer,
    jitter: Number, seed: int, shifts: bool,
) -> None:  # fmt: skip
    x, out, room = (
        carray(x, (rows, features)),
        carray(out, (rows, features)),
        carray(room, (blocks, 2, features)),
    )
    spread, mean, normal, uniform = (
        carray(spread, features),
        carray(mean, features),
        room[block, 0],
        room[block, 1],
    )
    for r in range(block * rows // blocks, (block + 1) * rows // blocks):
        key = splitmix64(np.uint64(seed), np.uint64(r + 1))
        _draw(np.uint32(key), np.uint32(key >> np.uint64(32)), normal, uniform)
        _scale(x[r], spread, jitter, normal, out[r])
        if shifts:
            _shift(mean, jitter, uniform, out[r])


@compiled
def _draw(first: Number, second: Number, normal: Any, uniform: Any) -> None:
    """Fill rows with normal numbers, and with numbers uniform between -1 and 1."""
    pairs = normal.shape[0] // 2
    half = normal.shape[0] - pairs
    _draw_pairs(first, second, normal[:pairs], normal[half:], uniform[:pairs], uniform[half:])
    if half > pairs:
        normal[pairs], _, uniform[pairs], _ = _four(np.uint32(half), first, second)


@compiled
def _draw_pairs(first: Number, second: Number, normal: Any, others: Any, uniform: Any, rest: Any) -> None:
    for i in range(normal.shape[0]):
        normal[i], others[i], uniform[i], rest[i] = _four(np.uint32(i), first, second)


@compiled
def _scale(row: Any, spread: Any, jitter: Number, normal: Any, out: Any) -> None:
    for i in range(row.shape[0]):
        out[i] = row[i] * (spread[i] + jitter * normal[i])


@compiled
def _shift(mean: Any, jitter: Number, uniform: Any, out: Any) -> None:
    for i in range(mean.shape[0]):
        out[i] += mean[i] + jitter * uniform[i]


def _mix(typing: Any, word: Any) -> Any:
    """Return 32 bits, each of which depends on each of the given ones.

    Written for LLVM: Numba multiplies in 64 bits, which takes three times as long.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        found = arguments[0]
        for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
            found = builder.xor(found, builder.lshr(found, found.type(shift)))
            found = builder.mul(found, found.type(factor))
        return builder.xor(found, builder.lshr(found, found.type(16)))

    return types.uint32(types.uint32), code


_mixed: Any = intrinsic(_mix)


@compiled
def _four(word: Number, first: Number, second: Number) -> tuple[Number, Number, Number, Number]:
    """Return two normal numbers and two uniform ones between -1 and 1."""
    f = np.float32
    a, b = _mixed(word ^ first), _mixed(word ^ second)
    c = _mixed(a ^ (b >> np.uint32(1)))
    radius = np.sqrt(f(-2) * _log(_unit(a)))
    angle = (_unit(b) - f(0.5)) * f(1.5707963267948966)  # within a quarter; its last bits say which
    sine, cosine = _sine(angle), _cosine(angle)
    across = sine if (b & np.uint32(1)) == 0 else cosine
    along = cosine if (b & np.uint32(1)) == 0 else -sine
    sign = f(1) if (b & np.uint32(2)) == 0 else f(-1)
    low, high = np.int32(c & np.uint32(0xFFFF)), np.int32(c >> np.uint32(16))
    u, v = (f(low) + f(0.5)) * f(2.0**-15) - f(1), (f(high) + f(0.5)) * f(2.0**-15) - f(1)
    return sign * radius * along, sign * radius * across, u, v


@compiled
def _unit(word: Number) -> Number:
    """Return a number strictly between 0 and 1, the middle of one of 2**23 equal parts."""
    return (np.float32(np.int32(word >> np.uint32(9))) + np.float32(0.5)) * np.float32(2.0**-23)


@compiled
def _sine(angle: Number) -> Number:
    """Return the sine of what lies within an eighth of a turn (Cephes)."""
    f, square = np.float32, angle * angle
    p = (f(-1.9515295891e-4) * square + f(8.3321608736e-3)) * square + f(-1.6666654611e-1)
    return p * square * angle + angle


@compiled
def _cosine(angle: Number) -> Number:
    """Return the cosine of what lies within an eighth of a turn (Cephes)."""
    f, square = np.float32, angle * angle
    p = (f(2.443315711809948e-5) * square + f(-1.388731625493765e-3)) * square + f(4.166664568298827e-2)
    return p * square * square + (f(1) - f(0.5) * square)


@compiled
def _log(number: Number) -> Number:
    """Return the natural logarithm of what is above 0 and no subnormal number (Cephes's logf)."""
    f = np.float32
    bits = np.float32(number).view(np.int32)
    exponent = np.int32(np.int32(bits >> np.int32(23)) - np.int32(126))
    mantissa = np.int32((bits & np.int32(0x007FFFFF)) | np.int32(0x3F000000)).view(np.float32)  # in [.5, 1)
    is_small = mantissa < f(0.70710678)
    m = (mantissa + mantissa if is_small else mantissa) - f(1)
    e = f(exponent) - (f(1) if is_small else f(0))
    p = f(7.0376836292e-2) * m + f(-1.1514610310e-1)
    p = p * m + f(1.1676998740e-1)
    p = p * m + f(-1.2420140846e-1)
    p = p * m + f(1.4249322787e-1)
    p = p * m + f(-1.6668057665e-1)
    p = p * m + f(2.0000714765e-1)
    p = p * m + f(-2.4999993993e-1)
    p = p * m + f(3.3333331174e-1)
    square = m * m
    return m + (p * m * square - f(0.5) * square + e * f(0.69314718))
