"""Norms beside the family by kernels of ours, on the CPU and some on CUDA: one differentiable function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


def computed(
    code: Code, backend: Backend, x: Tensor, *others: Tensor | None, devices: Sequence[str] = ("cpu",)
) -> Tensor:
    """Return z, by a kernel where there is one for these tensors, else by PyTorch's operations.

    `devices` are the types of device for which the code has kernels. Half precision is computed in
    float32, and comes out as x times the others would; kernels on CUDA read it as it is.
    """
    if not has_kernel(backend, x, *others, devices=devices):
        return code.eager(x, *others)
    dtype = x.dtype
    for other in others:
        dtype = dtype if other is None else torch.promote_types(dtype, other.dtype)
    given = (x, *others)
    wide = (upcast(each) if each is not None and each.is_cpu else each for each in given)
    z: Tensor = _Fused.apply(code, *wide)  # type: ignore[no-untyped-call]
    return z.to(dtype)


def has_kernel(
    backend: Backend, x: Tensor, *others: Tensor | None, devices: Sequence[str] = ("cpu",)
) -> bool:
    """Return whether kernels take these tensors: not float64 unless `fused`, and nothing traced.

    They are on one device, of a type for which there are kernels that can be compiled. What transforms
    or compiles a function gets PyTorch's operations.
    """
    device = x.device
    can_compile = device.type in devices and MISSING[device.type] is None
    if backend == "eager" or torch.compiler.is_compiling() or not can_compile:
        return False
    given = [x, *(other for other in others if other is not None)]
    is_wide = [each.dtype == torch.float64 for each in given]
    return (
        ((all(is_wide) and backend == "fused") or not any(is_wide))
        and all(type(each) in (Tensor, nn.Parameter) and each.device == device for each in given)
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
