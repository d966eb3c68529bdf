"""Dropout whose mask is computed from a key and an element's number, in both passes, and never stored.

PyTorch draws the elements of a mask one after the other, some 6 ns each on the CPU; this takes a tenth.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from adanorm.models import kernels

WHOLE = 2**32  # what a threshold is a share of


def dropout(x: Tensor, p: float, *, training: bool) -> Tensor:
    """Return mask * x / (1 - p) in training, else x; the mask keeps an element with probability 1 - p.

    Each call has a mask of its own, whose key is drawn from torch's generator of the CPU.
    """
    if not (training and 0 < p < 1 and kernels.compiled(x)):
        return F.dropout(x, p, training)
    key = int(torch.empty((), dtype=torch.int64).random_())
    y: Tensor = _Dropout.apply(x, p, key)  # type: ignore[no-untyped-call]
    return y


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float, key: int) -> Tensor:
        ctx.settings = p, key
        return _dropped(x, p, key)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, None]:
        p, key = ctx.settings
        if torch.is_grad_enabled():  # a second derivative is asked for
            return _Dropout.apply(grad, p, key), None, None  # type: ignore[no-untyped-call]
        return _dropped(grad, p, key), None, None


def _dropped(x: Tensor, p: float, key: int) -> Tensor:
    from adanorm.models.kernels.numba_dropout import kernel

    values = x.detach().contiguous()
    y = torch.empty_like(values)
    kernel()(y.numel(), values.data_ptr(), y.data_ptr(), round(p * WHOLE), 1 / (1 - p), key)
    return y
