"""What models compute on the CPU in other ways than PyTorch's own, because these cost less.

The layers are for a model that is built: parameters, their names and their initial values stay.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from adanorm.norms.backends import MISSING, cached_njit, is_plain
from adanorm.process import products


def usable(x: Tensor) -> bool:
    """Return whether a tensor is for them: float32 on the CPU, without autocast, and `is_plain`."""
    is_autocast = torch.is_autocast_enabled("cpu")
    return x.device.type == "cpu" and x.dtype == torch.float32 and not is_autocast and is_plain(x)


# PyTorch has a copy of oneDNN, but multiplies float32 by MKL: on one core of an AMD EPYC of the Zen 5 kind it
# makes 85 GFLOP/s, oneDNN 170. `products` says where oneDNN is worth it.
WORTHWHILE = 2**20  # multiplications: of fewer, oneDNN's call takes longer than MKL's product


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x W^T + b, (..., N), of x (..., K), W (N, K) and b (N,)."""
    is_worthwhile = x.numel() * len(weight) >= WORTHWHILE
    if not (is_worthwhile and usable(x) and _is_onednns()):
        return F.linear(x, weight, bias)
    y: Tensor = _Linear.apply(x.flatten(0, -2), weight, bias)  # type: ignore[no-untyped-call]
    return y.view(*x.shape[:-1], len(weight))


class _Linear(torch.autograd.Function):
    """Of a matrix x (R, K)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        # Transposed in memory: for weights that lie so, oneDNN compiles nothing anew for a batch's length.
        return _product(x, weight.t().contiguous().t(), bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        again = torch.is_grad_enabled()  # a second derivative is asked for
        dx = dw = db = None
        if needs_x:
            dx = grad @ weight if again else _product(grad, weight.t())
        if needs_weight:
            dw = grad.t() @ x if again else _weight_gradient(grad, x)
        if needs_bias:
            db = grad.sum(0)
        return dx, dw, db


def _weight_gradient(dy: Tensor, x: Tensor) -> Tensor:
    """Return dy^T x, (N, K), of dy (R, N) and x (R, K): the product with the fewer rows, which costs less."""
    if dy.shape[1] > x.shape[1]:
        return _product(x.t().contiguous(), dy.t()).t()
    return _product(dy.t().contiguous(), x.t())


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    y: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return y


def _is_onednns() -> bool:
    available: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return available and bool(torch.backends.mkldnn.enabled) and products() == "onednn"


WHOLE = 2**32  # what a threshold is a share of


# PyTorch draws the elements of a mask one after the other, some 6 ns each on the CPU. This computes an
# element from a key and its number, in both passes, stores no mask and takes a tenth.
class Dropout(nn.Dropout):
    """nn.Dropout with cheaper masks: each call has its own, whose key torch's generator of the CPU draws."""

    def forward(self, x: Tensor) -> Tensor:
        """Return mask * x / (1 - p) in training, else x; the mask keeps an element with probability 1 - p."""
        if not (self.training and 0 < self.p < 1 and MISSING["cpu"] is None and usable(x)):
            return F.dropout(x, self.p, self.training)
        key = int(torch.empty((), dtype=torch.int64).random_())
        y: Tensor = _Dropout.apply(x, self.p, key)  # type: ignore[no-untyped-call]
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
    values = x.detach().contiguous()
    y = torch.empty_like(values)
    _drop(values.view(-1).numpy(), y.view(-1).numpy(), round(p * WHOLE), np.float32(1 / (1 - p)), key)
    return y


@cached_njit
def _splitmix64(key: Any, number: Any) -> Any:
    """Return the 64 bits of a number in splitmix64's sequence from a key (Steele, Lea & Flood 2014)."""
    z = key + number * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@cached_njit
def _drop(x: Any, y: Any, threshold: int, scale: Any, key: int) -> None:
    """Write mask * x * scale (N,) into y; an element stays with probability 1 - threshold / WHOLE.

    Its number in the sequence that starts at the key decides: those of random keys of 64 bits do not meet.
    """
    for i in range(len(x)):
        drawn = _splitmix64(np.uint64(key), np.uint64(i)) >> np.uint64(32)
        y[i] = x[i] * scale if drawn >= np.uint64(threshold) else np.float32(0)


def sum_rows(rows: Tensor, places: Tensor) -> Tensor:
    """Return sum_f rows[places[b, f]], (B, H), of rows (P, H) and places (B, F)."""
    if not usable(rows):
        return F.embedding_bag(places, rows, mode="sum")
    sums: Tensor = _RowSums.apply(rows, places)  # type: ignore[no-untyped-call]
    return sums


class _RowSums(torch.autograd.Function):
    """embedding_bag, whose own gradient rounds otherwise: it adds in an order that depends on the batch."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, places: Tensor) -> Tensor:
        ctx.save_for_backward(places)
        ctx.count = len(rows)
        return F.embedding_bag(places, rows, mode="sum")

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (places,) = ctx.saved_tensors
        d_rows = grad.new_zeros(ctx.count, grad.shape[1])
        for column in places.unbind(1):
            d_rows.index_add_(0, column, grad)
        return d_rows, None


class Linear(nn.Linear):
    """nn.Linear by another library's products."""

    def forward(self, x: Tensor) -> Tensor:
        """Return x W^T + b, (..., N), of x (..., K)."""
        return linear(x, self.weight, self.bias)


def replace_layers(model: nn.Module) -> None:
    """Put these in the place of a model's layers, which share parameters and hooks with what they replace."""
    for module in model.modules():
        if type(module) is nn.Linear:
            module.__class__ = Linear
        elif type(module) is nn.Dropout and not module.inplace:
            module.__class__ = Dropout
