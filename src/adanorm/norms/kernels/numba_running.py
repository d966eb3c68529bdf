"""PowerNorm's rows on the CPU once its sizes are known: a row is read once forward and once backward.

R rows of H features, all arrays contiguous and of one type, as in numba_columns. A block is some rows.
"""

from __future__ import annotations

from typing import Any

import torch
from numba.np.numpy_support import carray
from torch import Tensor

from adanorm.norms.kernels.compiling import Kernel, compiled
from adanorm.norms.kernels.teams import run

Pointer = Any
BLOCKS = 32  # of rows


def _scale(
    block: int, blocks: int, rows: int, features: int,
    x: Pointer, scale: Pointer, bias: Pointer, mask: Pointer, is_masked: bool, z: Pointer, sums: Pointer,
) -> None:  # fmt: skip
    """Write scale * x + bias, and the block's sum of x^2 over the rows that count."""
    x, z, mask = carray(x, (rows, features)), carray(z, (rows, features)), carray(mask, rows)
    scale, bias, sums = carray(scale, features), carray(bias, features), carray(sums, (blocks, 1, features))
    sums[block, :, :] = 0
    for r in range(block * rows // blocks, (block + 1) * rows // blocks):
        _scale_row(x[r], scale, bias, z[r])
        if not is_masked or mask[r] != 0:
            _add_square(x[r], sums[block, 0])


@compiled
def _scale_row(row: Any, scale: Any, bias: Any, out: Any) -> None:
    for i in range(row.shape[0]):
        out[i] = scale[i] * row[i] + bias[i]


@compiled
def _add_square(row: Any, total: Any) -> None:
    for i in range(row.shape[0]):
        total[i] += row[i] * row[i]


def _scale_gradient(
    block: int, blocks: int, rows: int, features: int,
    dz: Pointer, x: Pointer, scale: Pointer, slope: Pointer, mask: Pointer, is_masked: bool,
    dx: Pointer, sums: Pointer,
) -> None:  # fmt: skip
    """Write scale * dz - slope * x, and the block's sums of dz, and of dz * x where rows count and not."""
    shape = (rows, features)
    dz, x, dx, mask = carray(dz, shape), carray(x, shape), carray(dx, shape), carray(mask, rows)
    scale, slope, sums = carray(scale, features), carray(slope, features), carray(sums, (blocks, 3, features))
    sums[block, :, :] = 0
    for r in range(block * rows // blocks, (block + 1) * rows // blocks):
        product = sums[block, 1] if not is_masked or mask[r] != 0 else sums[block, 2]
        _gradient_row(dz[r], x[r], scale, slope, sums[block, 0], product, dx[r])


@compiled
def _gradient_row(grad: Any, row: Any, scale: Any, slope: Any, plain: Any, product: Any, out: Any) -> None:
    for i in range(row.shape[0]):
        plain[i] += grad[i]
        product[i] += grad[i] * row[i]
        out[i] = scale[i] * grad[i] - slope[i] * row[i]


# What each takes after its block: see compiling.entry.
TAKES = {_scale: "iipppubpp", _scale_gradient: "iippppubpp"}


def scaled(x: Tensor, scale: Tensor, bias: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return scale * x + bias (R, H), and the sum of x^2 over the rows that count (H,)."""
    z, (square,) = _over_rows(_scale, 1, mask, x, scale, bias)
    return z, square


def scaled_gradient(
    dz: Tensor, x: Tensor, scale: Tensor, slope: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return scale * dz - slope * x (R, H), and sums (3, H): of dz, of dz * x where rows count and not."""
    return _over_rows(_scale_gradient, 3, mask, dz, x, scale, slope)


def _over_rows(kernel: Kernel, count: int, mask: Tensor | None, *tensors: Tensor) -> tuple[Tensor, Tensor]:
    """Return what a kernel makes of rows, and its sums (count, H)."""
    tensors = tuple(each.contiguous() for each in tensors)
    out = torch.empty_like(tensors[0])
    rows, features = out.shape
    blocks = min(BLOCKS, rows)
    sums = out.new_empty(blocks, count, features)
    mask_at = None if mask is None else mask.data_ptr()
    places = (
        *(each.data_ptr() for each in tensors),
        mask_at,
        mask is not None,
        out.data_ptr(),
        sums.data_ptr(),
    )
    run(kernel, TAKES[kernel], out.dtype, rows, features, *places, blocks=blocks, elements=out.numel())
    return out, sums.sum(0)
