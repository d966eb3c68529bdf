"""Norms beside the family by kernels of ours, on the CPU and some on CUDA: one differentiable function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
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
    dtypes = _dtypes(backend, devices, x, *others)
    if dtypes is None:
        return code.eager(x, *others)
    if dtypes == {torch.float32}:  # the usual case, which needs no look at each tensor once more
        plain: Tensor = _apply(code, x, *others)
        return plain
    given = (x, *others)
    wide = (upcast(each) if each is not None and each.is_cpu else each for each in given)
    z: Tensor = _apply(code, *wide)
    return z.to(reduce(torch.promote_types, dtypes))


def has_kernel(
    backend: Backend, x: Tensor, *others: Tensor | None, devices: Sequence[str] = ("cpu",)
) -> bool:
    """Return whether kernels take these tensors: not float64 unless `fused`, and nothing traced.

    They are on one device, of a type for which there are kernels that can be compiled. What transforms
    or compiles a function gets PyTorch's operations.
    """
    return _dtypes(backend, devices, x, *others) is not None


def _dtypes(backend: Backend, devices: Sequence[str], x: Tensor, *others: Tensor | None) -> set[Any] | None:
    """Return the types of tensors that kernels take, None if they do not. A small norm takes no longer."""
    device = x.device
    kind = device.type
    if backend == "eager" or kind not in devices or MISSING[kind] is not None:
        return None
    dtypes = {x.dtype}
    for each in others:
        if each is not None:
            if type(each) not in _OWN or each.device != device:
                return None
            dtypes.add(each.dtype)
    is_taken = (
        (torch.float64 not in dtypes or (len(dtypes) == 1 and backend == "fused"))
        and type(x) in _OWN
        and x.numel() > 0
        and not torch.compiler.is_compiling()
        and torch._C._len_torch_dispatch_stack() == 0
        and not torch._C._are_functorch_transforms_active()
        and forward_ad._current_level < 0
    )
    return dtypes if is_taken else None


_OWN = (Tensor, nn.Parameter)


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


# Past Function.apply, which looks for torch.func's wrappers at every call: `_dtypes` has found none.
_apply: Callable[..., Any] = super(torch.autograd.Function, _Fused).apply
