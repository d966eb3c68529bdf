"""Sums of rows chosen by number, as nn.EmbeddingBag's, with a backward pass that sorts nothing."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from numba.np.numpy_support import carray
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from adanorm.models import kernels
from adanorm.norms.kernels.compiling import Kernel, entry

Pointer = Any  # to float32
SIZES = "iiii"  # sums B, rows to a sum F, rows P, features H


def sum_rows(rows: Tensor, places: Tensor) -> Tensor:
    """Return sum_f rows[places[b, f]], (B, H), of rows (P, H) and places (B, F)."""
    if not kernels.usable(rows):
        return F.embedding_bag(places, rows, mode="sum")
    sums: Tensor = _RowSums.apply(rows, places)  # type: ignore[no-untyped-call]
    return sums


class _RowSums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, places: Tensor) -> Tensor:
        rows, places = rows.contiguous(), places.long().contiguous()
        ctx.save_for_backward(places)
        ctx.count = len(rows)
        sums = rows.new_empty(len(places), rows.shape[1])
        addresses = rows.data_ptr(), places.data_ptr(), sums.data_ptr()
        _kernel(_forward_at)(*places.shape, *rows.shape, *addresses)
        return sums

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (places,) = ctx.saved_tensors
        d_sums = grad.contiguous()
        d_rows = grad.new_zeros(ctx.count, grad.shape[1])
        addresses = d_rows.data_ptr(), places.data_ptr(), d_sums.data_ptr()
        _kernel(_backward_at)(*places.shape, *d_rows.shape, *addresses)
        return d_rows, None


@cache
def _kernel(function: Kernel) -> Kernel:
    return entry(function, SIZES + "plp", torch.float32)


def _forward_at(
    sums: int, terms: int, count: int, features: int, rows: Pointer, places: Any, out: Pointer
) -> None:
    of_rows, of_out = carray(rows, (count, features)), carray(out, (sums, features))
    of_places = carray(places, (sums, terms))
    for b in range(sums):
        of_out[b] = of_rows[of_places[b, 0]]
        for f in range(1, terms):
            row, total = of_rows[of_places[b, f]], of_out[b]
            for h in range(features):
                total[h] += row[h]


def _backward_at(
    sums: int, terms: int, count: int, features: int, d_rows: Pointer, places: Any, d_out: Pointer
) -> None:
    of_rows, of_out = carray(d_rows, (count, features)), carray(d_out, (sums, features))
    of_places = carray(places, (sums, terms))
    for b in range(sums):
        for f in range(terms):
            row, grad = of_rows[of_places[b, f]], of_out[b]
            for h in range(features):
                row[h] += grad[h]
