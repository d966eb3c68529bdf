"""Norms over positions and over the batch on the CPU: what a feature has in common over rows.

E examples, P positions, H features; all arrays are contiguous and of one type: x, z and their gradients
(E, P, H), gain and bias (H,). `mask` (E, P), or nothing, is 1 at the rows that count. A block is an
example, whose rows are in the cache when they are read again, or, where sizes are known beforehand,
some rows: as many whatever the threads, so a sum depends on no thread.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba.np.numpy_support import carray
from torch import Tensor

from adanorm.norms.kernels.compiling import compiled
from adanorm.norms.kernels.teams import run

Number = Any  # a NumPy scalar of the arrays' type: a Python float would make all of it float64
Pointer = Any  # to such numbers, of the mask to bytes
TOGETHER = 32  # rows that are summed before they join the total, which rounds less


def _normalize(
    e: int, examples: int, positions: int, features: int,
    x: Pointer, gain: Pointer, bias: Pointer, mask: Pointer, is_masked: bool,
    groups: int, is_centered: bool, eps: Number, z: Pointer, found: Pointer,
) -> None:  # fmt: skip
    """Write an example's z, and of each feature mean, 1/size, variance and how many rows count."""
    shape = (examples, positions, features)
    x, z, mask = carray(x, shape)[e], carray(z, shape)[e], carray(mask, shape[:2])[e]
    gain, bias, found = carray(gain, features), carray(bias, features), carray(found, (examples, 7, features))
    mean, inverse, square, pivot, scale = found[e, 0], found[e, 1], found[e, 2], found[e, 4], found[e, 4]
    count = _count(mask, is_masked)
    pivot[:] = 0
    if is_centered and (not is_masked or mask[0] != 0):
        _add(x[0], pivot)  # sums about a row cancel no more than x itself has been rounded
    _sum_squares(x, pivot, mask, is_masked, mean, square, found[e, 5], found[e, 6])
    _finish_moments(mean, square, pivot, x.dtype.type(count), is_centered)
    if groups < features:
        for i in range(features):
            inverse[i] = mean[i]
        _share(mean, groups)
        for i in range(features):
            square[i] += (inverse[i] - mean[i]) * (inverse[i] - mean[i])
        _share(square, groups)
    found[e, 3, :] = count
    for i in range(features):
        inverse[i] = x.dtype.type(1) / np.sqrt(square[i] + eps)
        scale[i] = inverse[i] * gain[i]
    for p in range(positions):
        _scale_row(x[p], mean, scale, bias, z[p])


@compiled
def _count(mask: Any, is_masked: bool) -> int:
    count = 0
    for p in range(mask.shape[0]):
        if not is_masked or mask[p] != 0:
            count += 1
    return max(count, 1)


@compiled
def _sum_squares(
    x: Any, pivot: Any, mask: Any, is_masked: bool, plain: Any, square: Any, part: Any, square_part: Any
) -> None:
    """Write the sums of x - pivot and of its square over the rows that count."""
    plain[:] = 0
    square[:] = 0
    for start in range(0, x.shape[0], TOGETHER):
        part[:] = 0
        square_part[:] = 0
        for p in range(start, min(start + TOGETHER, x.shape[0])):
            if not is_masked or mask[p] != 0:
                _add_squares(x[p], pivot, part, square_part)
        _add(part, plain)
        _add(square_part, square)


@compiled
def _add(row: Any, total: Any) -> None:
    for i in range(row.shape[0]):
        total[i] += row[i]


@compiled
def _add_squares(row: Any, pivot: Any, plain: Any, square: Any) -> None:
    for i in range(row.shape[0]):
        shifted = row[i] - pivot[i]
        plain[i] += shifted
        square[i] += shifted * shifted


@compiled
def _finish_moments(mean: Any, square: Any, pivot: Any, count: Number, is_centered: bool) -> None:
    """Turn sums into mean and variance, not `is_centered` into 0 and the mean square."""
    zero = mean.dtype.type(0)
    for i in range(mean.shape[0]):
        shift = mean[i] / count if is_centered else zero
        square[i] = max(square[i] / count - shift * shift, zero)
        mean[i] = pivot[i] + shift


@compiled
def _share(row: Any, groups: int) -> None:
    """Put the mean of its group in the place of every number."""
    width = row.shape[0] // groups
    for first in range(0, row.shape[0], width):
        row[first : first + width] = row[first : first + width].sum() / row.dtype.type(width)


@compiled
def _scale_row(row: Any, mean: Any, scale: Any, bias: Any, out: Any) -> None:
    for i in range(row.shape[0]):
        out[i] = scale[i] * (row[i] - mean[i]) + bias[i]


def _gradient(
    e: int, examples: int, positions: int, features: int,
    dz: Pointer, x: Pointer, gain: Pointer, found: Pointer, mask: Pointer, is_masked: bool,
    groups: int, is_centered: bool, dx: Pointer, sums: Pointer,
) -> None:  # fmt: skip
    """Write an example's dl/dx, and its part of dl/dbias and dl/dgain.

    Every row is shifted and scaled; nothing comes back to those that the statistics are not of.
    """
    shape = (examples, positions, features)
    dz, x, dx, mask = (
        carray(dz, shape)[e],
        carray(x, shape)[e],
        carray(dx, shape)[e],
        carray(mask, shape[:2])[e],
    )
    gain, found = carray(gain, features), carray(found, (examples, 7, features))
    sums = carray(sums, (examples, 4, features))
    mean, inverse, count, scale = found[e, 0], found[e, 1], found[e, 3, 0], found[e, 4]
    plain, product, shift, slope = sums[e, 0], sums[e, 1], sums[e, 2], sums[e, 3]
    _sum_products(dz, x, mean, plain, product, shift, slope)
    for i in range(features):
        product[i] *= inverse[i]
        shift[i] = plain[i] * gain[i] / count
        slope[i] = product[i] * gain[i] / count
    if groups < features:
        _share(shift, groups)
        _share(slope, groups)
    zero = x.dtype.type(0)
    for i in range(features):
        shift[i] = -shift[i] * inverse[i] if is_centered else zero
        slope[i] = -slope[i] * inverse[i] * inverse[i]
        scale[i] = inverse[i] * gain[i]
    for p in range(positions):
        if not is_masked or mask[p] != 0:
            _gradient_row(dz[p], x[p], mean, scale, slope, shift, dx[p])
        else:
            _multiply(dz[p], scale, dx[p])


@compiled
def _sum_products(dz: Any, x: Any, mean: Any, plain: Any, product: Any, part: Any, product_part: Any) -> None:
    """Write the sums of dl/dz and of dl/dz * (x - mean) over all rows."""
    plain[:] = 0
    product[:] = 0
    for start in range(0, x.shape[0], TOGETHER):
        part[:] = 0
        product_part[:] = 0
        for p in range(start, min(start + TOGETHER, x.shape[0])):
            _add_products(dz[p], x[p], mean, part, product_part)
        _add(part, plain)
        _add(product_part, product)


@compiled
def _add_products(grad: Any, row: Any, mean: Any, plain: Any, product: Any) -> None:
    for i in range(row.shape[0]):
        plain[i] += grad[i]
        product[i] += grad[i] * (row[i] - mean[i])


@compiled
def _gradient_row(grad: Any, row: Any, mean: Any, scale: Any, slope: Any, shift: Any, out: Any) -> None:
    for i in range(row.shape[0]):
        out[i] = scale[i] * grad[i] + slope[i] * (row[i] - mean[i]) + shift[i]


@compiled
def _multiply(grad: Any, scale: Any, out: Any) -> None:
    for i in range(grad.shape[0]):
        out[i] = scale[i] * grad[i]


def normalized(
    x: Tensor, gain: Tensor | None, bias: Tensor | None, mask: Tensor | None,
    groups: int, is_centered: bool, eps: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return gain * (x - mean)/sqrt(variance + eps) + bias (E, P, H), and what was found.

    That is (E, 7, H): mean, 1/size, variance, count and room. Not `is_centered`, the mean is 0.
    """
    z, found = torch.empty_like(x), x.new_empty(len(x), 7, x.shape[-1])
    gain = x.new_ones(x.shape[-1]) if gain is None else gain.contiguous()
    bias = x.new_zeros(x.shape[-1]) if bias is None else bias.contiguous()
    places = x.data_ptr(), gain.data_ptr(), bias.data_ptr(), *_mask(mask)
    arguments = (*x.shape[1:], *places, groups, is_centered, eps, z.data_ptr(), found.data_ptr())
    run(_normalize, "iipppubibnpp", x.dtype, *arguments, blocks=len(x), elements=x.numel())
    return z, found


def normalized_gradient(
    dz: Tensor, x: Tensor, gain: Tensor | None, mask: Tensor | None, found: Tensor,
    groups: int, is_centered: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return dl/dx (E, P, H), and dl/dbias and dl/dgain (2, H)."""
    dx, sums = torch.empty_like(x), x.new_empty(len(x), 4, x.shape[-1])
    gain = x.new_ones(x.shape[-1]) if gain is None else gain.contiguous()
    places = dz.data_ptr(), x.data_ptr(), gain.data_ptr(), found.data_ptr(), *_mask(mask)
    arguments = (*x.shape[1:], *places, groups, is_centered, dx.data_ptr(), sums.data_ptr())
    run(_gradient, "iippppubibpp", x.dtype, *arguments, blocks=len(x), elements=x.numel())
    return dx, sums[:, :2].sum(0)


def _mask(mask: Tensor | None) -> tuple[int | None, bool]:
    return None if mask is None else mask.data_ptr(), mask is not None
