"""Norms beside the family by kernels of ours on the CPU: one differentiable function for all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from adanorm.norms.backends import MISSING, Backend
from adanorm.norms.statistics import upcast


class Code(Protocol):
    """What computes a norm of x and of other tensors, its gain or what there is, None where it has none."""

    @property
    def forward(self) -> Callable[..., tuple[Tensor, tuple[Tensor, ...]]]:
        """Return z by a kernel, and what the gradient needs beside the arguments: of x, others."""

    @property
    def backward(self) -> Callable[..., tuple[Tensor | None, ...]]:
        """Return the gradients of x and the others by a kernel: of dl/dz, x, others and what was kept."""

    @property
    def eager(self) -> Callable[..., Tensor]:
        """Return z by PyTorch's operations: of x, others."""


def computed(code: Code, backend: Backend, x: Tensor, *others: Tensor | None) -> Tensor:
    """Return z, by a kernel where there is one for these tensors, else by PyTorch's operations.

    Half precision is computed in float32, and comes out as x times the others would.
    """
    if not has_kernel(backend, x, *others):
        return code.eager(x, *others)
    dtype = x.dtype
    for other in others:
        dtype = dtype if other is None else torch.promote_types(dtype, other.dtype)
    wide = (None if other is None else upcast(other) for other in others)
    z: Tensor = _Fused.apply(code, upcast(x), *wide)  # type: ignore[no-untyped-call]
    return z.to(dtype)


def has_kernel(backend: Backend, x: Tensor, *others: Tensor | None) -> bool:
    """Return whether kernels take these tensors: not float64 unless `fused`, and nothing traced.

    What transforms or compiles a function gets PyTorch's operations.
    """
    if backend == "eager" or torch.compiler.is_compiling() or MISSING["cpu"] is not None:
        return False
    given = [x, *(other for other in others if other is not None)]
    is_wide = [each.dtype == torch.float64 for each in given]
    return (
        ((all(is_wide) and backend == "fused") or not any(is_wide))
        and all(type(each) in (Tensor, nn.Parameter) and each.is_cpu for each in given)
        and x.numel() > 0
        and torch._C._len_torch_dispatch_stack() == 0
        and not torch._C._are_functorch_transforms_active()
        and forward_ad._current_level < 0
    )


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, code: Code, x: Tensor, *others: Tensor | None) -> Tensor:
        z, kept = code.forward(x, *others)
        ctx.save_for_backward(x, *others, *kept)
        ctx.code, ctx.count = code, 1 + len(others)
        return z

    @staticmethod
    def backward(ctx: Any, dz: Tensor) -> tuple[Tensor | None, ...]:
        tensors: tuple[Tensor | None, ...] = ctx.saved_tensors
        if not torch.is_grad_enabled():
            return None, *ctx.code.backward(dz, *tensors)
        # A derivative of the gradient may be asked for: it is that of PyTorch's operations.
        inputs = [None if each is None else each.view_as(each) for each in tensors[: ctx.count]]
        learned = [each for each in inputs if each is not None and each.requires_grad]
        found = iter(torch.autograd.grad(ctx.code.eager(*inputs), learned, dz, create_graph=True))
        return None, *(None if each is None or not each.requires_grad else next(found) for each in inputs)
