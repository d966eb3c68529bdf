"""Sums of rows chosen by number, as nn.EmbeddingBag's, with a backward pass that sorts nothing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from adanorm.models import kernels


def sum_rows(rows: Tensor, places: Tensor) -> Tensor:
    """Return sum_f rows[places[b, f]], (B, H), of rows (P, H) and places (B, F)."""
    if not kernels.compiled(rows):
        return F.embedding_bag(places, rows, mode="sum")
    sums: Tensor = _RowSums.apply(rows, places)  # type: ignore[no-untyped-call]
    return sums


class _RowSums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, places: Tensor) -> Tensor:
        from adanorm.models.kernels.numba_row_sums import forward_at, kernel

        rows, places = rows.contiguous(), places.long().contiguous()
        ctx.save_for_backward(places)
        ctx.count = len(rows)
        sums = rows.new_empty(len(places), rows.shape[1])
        addresses = rows.data_ptr(), places.data_ptr(), sums.data_ptr()
        kernel(forward_at)(*places.shape, *rows.shape, *addresses)
        return sums

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        from adanorm.models.kernels.numba_row_sums import backward_at, kernel

        (places,) = ctx.saved_tensors
        d_sums = grad.contiguous()
        d_rows = grad.new_zeros(ctx.count, grad.shape[1])
        addresses = d_rows.data_ptr(), places.data_ptr(), d_sums.data_ptr()
        kernel(backward_at)(*places.shape, *d_rows.shape, *addresses)
        return d_rows, None
