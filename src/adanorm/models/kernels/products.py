"""A linear layer's three products by oneDNN, of which PyTorch has a copy but not for float32.

PyTorch's choice there, MKL, uses AVX-512 on Intel's processors alone: on an AMD EPYC (Zen 5) it makes 85
GFLOP/s on one core where oneDNN makes 170 (scripts/benchmarks/products.py). Both are sums in float32.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from adanorm.models import kernels

WORTHWHILE = 2**20  # multiplications: of fewer, oneDNN's call takes longer than MKL's product


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x W^T + b, (..., N), of x (..., K), W (N, K) and b (N,)."""
    is_worthwhile = x.numel() * len(weight) >= WORTHWHILE
    if not (is_worthwhile and kernels.usable(x) and _has_onednn()):
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


def _has_onednn() -> bool:
    available: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return available and bool(torch.backends.mkldnn.enabled)
