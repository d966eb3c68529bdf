"""Layers that compute on the CPU at less cost than PyTorch's own.

They replace the layers of a built model: parameters, their names and their initial values stay.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from adanorm.data.examples import WHOLE, Part
from adanorm.models.draws import current_part, dropout
from adanorm.norms.closed_form import MISSING, cached_njit, is_plain
from adanorm.process import products


def usable(x: Tensor) -> bool:
    """Return whether these layers take x: float32 on the CPU, without autocast, and `is_plain`."""
    is_autocast = torch.is_autocast_enabled("cpu")
    return x.device.type == "cpu" and x.dtype == torch.float32 and not is_autocast and is_plain(x)


# PyTorch has a copy of oneDNN but multiplies float32 matrices by MKL; `products` says which is
# faster here.
WORTHWHILE = 2**20  # multiplications; for fewer, oneDNN's call takes longer than MKL's product


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x W^T + b (..., N) for x (..., K), W (N, K) and b (N,)."""
    outputs = len(weight)
    if x.numel() * outputs < WORTHWHILE or not usable(x) or not _is_onednns():
        return F.linear(x, weight, bias)
    y = _Linear.apply(
        x.flatten(0, -2),
        weight,
        bias,
    )  # type: ignore[no-untyped-call]
    return y.view(*x.shape[:-1], outputs)


class _Linear(torch.autograd.Function):
    """`linear` for a matrix x (R, K)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        # Transposed in memory: for such weights oneDNN need not compile again for another length of
        # batch.
        return _product(
            x,
            weight.t().contiguous().t(),
            bias,
        )

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        is_differentiable = torch.is_grad_enabled()  # a second derivative may follow
        dx = dw = db = None
        if needs_x:
            dx = grad @ weight if is_differentiable else _product(grad, weight.t())
        if needs_weight:
            dw = grad.t() @ x if is_differentiable else _weight_gradient(grad, x)
        if needs_bias:
            db = grad.sum(0)
        return dx, dw, db


def _weight_gradient(dy: Tensor, x: Tensor) -> Tensor:
    """Return dy^T x (N, K) for dy (R, N) and x (R, K), by the product with fewer rows."""
    if dy.shape[1] > x.shape[1]:
        return _product(x.t().contiguous(), dy.t()).t()
    return _product(dy.t().contiguous(), x.t())


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(
        x,
        weight,
        bias,
        "none",
        [],
        "",
    )


def _is_onednns() -> bool:
    onednn: Any = torch.backends.mkldnn
    return onednn.is_available() and onednn.enabled and products() == "onednn"


ALWAYS = 2**32  # the threshold of probability 1


# PyTorch draws a mask's elements one after the other, in about 6 ns each on the CPU. This layer
# computes each element from a key and its index, in both passes. It stores no mask and takes a
# tenth of the time.
class Dropout(nn.Dropout):
    """nn.Dropout with cheaper masks: torch's generator of the CPU draws a key for each mask."""

    rows: int = 0  # the axis of the batch's rows

    def forward(self, x: Tensor) -> Tensor:
        """Return mask * x / (1 - p) in training, else x; the mask is 1 with probability 1 - p."""
        if not self.training or self.p == 0:
            return x
        if not (self.p < 1 and MISSING["cpu"] is None and usable(x)):
            return dropout(x, self.p, rows=self.rows)
        key = int(torch.empty((), dtype=torch.int64).random_())
        mask = _Mask(self.p, key, self.rows, current_part())
        return _Dropout.apply(x, mask)  # type: ignore[no-untyped-call]


class _Mask(NamedTuple):
    """What decides a mask: its probability, its key, and the rows of the batch it is for."""

    p: float
    key: int
    axis: int
    part: Part

    def applied_to(self, x: Tensor) -> Tensor:
        """Return mask * x / (1 - p)."""
        values = x.detach().contiguous()
        y = torch.empty_like(values)
        shape = 1, 1, values.numel()
        count, part = 1, WHOLE
        if self.part.world > 1:
            count, part = self.part.size, self.part
            rows = x.shape[self.axis]
            before = math.prod(x.shape[: self.axis])
            after = math.prod(x.shape[self.axis + 1 :])
            shape = before, rows, after
        _drop(
            values.view(shape).numpy(),
            y.view(shape).numpy(),
            round(self.p * ALWAYS),
            np.float32(1 / (1 - self.p)),
            self.key,
            count,
            part.rank,
            part.world,
        )
        return y


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: _Mask) -> Tensor:
        ctx.mask = mask
        return mask.applied_to(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None]:
        if torch.is_grad_enabled():  # a second derivative may follow
            return _Dropout.apply(grad, ctx.mask), None  # type: ignore[no-untyped-call]
        return ctx.mask.applied_to(grad), None


@cached_njit
def _splitmix64(key: Any, number: Any) -> Any:
    """Return element `number` (64 bits) of splitmix64's sequence from a key.

    Steele, Lea & Flood 2014.
    """
    z = key + number * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@cached_njit
def _drop(
    x: Any, y: Any, threshold: int, scale: Any, key: int, count: int, rank: int, world: int
) -> None:
    """Write mask * x * scale (A, R, H) into y; a share of threshold / ALWAYS elements is dropped.

    The rows are rank, rank + world, ... of a whole (A, count, H). The sequence that starts at the
    key has an element for each of the whole. Sequences of random 64-bit keys practically never
    overlap.
    """
    for a in range(x.shape[0]):
        for row in range(x.shape[1]):
            start = (a * count + rank + row * world) * x.shape[2]
            for h in range(x.shape[2]):
                random = _splitmix64(np.uint64(key), np.uint64(start + h))
                is_kept = (random >> np.uint64(32)) >= np.uint64(threshold)
                if is_kept:
                    y[a, row, h] = x[a, row, h] * scale
                else:
                    y[a, row, h] = np.float32(0)


def sum_rows(rows: Tensor, indices: Tensor) -> Tensor:
    """Return sum_f rows[indices[b, f]] (B, H) for rows (P, H) and indices (B, F)."""
    if not usable(rows):
        return F.embedding_bag(indices, rows, mode="sum")
    return _RowSums.apply(rows, indices)  # type: ignore[no-untyped-call]


class _RowSums(torch.autograd.Function):
    """embedding_bag whose gradient adds in a fixed order; torch's order depends on the batch."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, indices: Tensor) -> Tensor:
        ctx.save_for_backward(indices)
        ctx.count = len(rows)
        return F.embedding_bag(indices, rows, mode="sum")

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (indices,) = ctx.saved_tensors
        d_rows = grad.new_zeros(ctx.count, grad.shape[1])
        for column in indices.unbind(1):
            d_rows.index_add_(0, column, grad)
        return d_rows, None


class Linear(nn.Linear):
    """nn.Linear with oneDNN's products where they are faster."""

    def forward(self, x: Tensor) -> Tensor:
        """Return x W^T + b (..., N) for x (..., K)."""
        return linear(x, self.weight, self.bias)


def replace_layers(model: nn.Module) -> None:
    """Turn a model's linear and dropout layers into those above; parameters and hooks stay."""
    for module in model.modules():
        if type(module) is nn.Linear:
            module.__class__ = Linear
        elif type(module) is nn.Dropout and not module.inplace:
            module.__class__ = Dropout
