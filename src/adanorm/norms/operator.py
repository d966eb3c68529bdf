"""The closed form as PyTorch's operators adanorm::norm and adanorm::norm_backward.

Registered, so that autograd, torch.compile, torch.export, torch.func and fake tensors see one
operator where there are kernels of ours. Letters as in norms.functional; variance is (...): the
mean square of a row that is not centered.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

SETTINGS = "float k, float C, bool detach_mean, bool detach_variance, float eps, bool released, bool centered"
torch.library.define("adanorm::norm", f"(Tensor x, {SETTINGS}) -> (Tensor z, Tensor variance)")
torch.library.define(
    "adanorm::norm_backward", f"(Tensor grad, Tensor? x, Tensor variance, {SETTINGS}) -> Tensor"
)


def norm(x: Tensor, *settings: float | bool) -> Tensor:
    """Return z (..., H) by a kernel; the settings are those of the operator, in its order."""
    z: Tensor
    if torch.compiler.is_compiling():
        z = torch.ops.adanorm.norm.default(x, *settings)[0]
    elif torch._C._are_functorch_transforms_active():
        z = _Norm.apply(x, *settings)[0]  # type: ignore[no-untyped-call]
    elif type(x) not in (Tensor, nn.Parameter) or torch._C._len_torch_dispatch_stack() > 0:
        z = torch.ops.adanorm.norm.default(x, *settings)[0]
    else:
        z = _PlainNorm.apply(x, settings)  # type: ignore[no-untyped-call]
    return z


@cache
def _kernels(device: str) -> Any:
    """Return the module whose `forward` and `backward` take what the operators take on a type of device."""
    if device == "cuda":
        from adanorm.norms.kernels import triton_rows

        return triton_rows
    from adanorm.norms.kernels import numba_rows

    return numba_rows


def _forward(x: Tensor, *settings: Any) -> tuple[Tensor, Tensor]:
    found: tuple[Tensor, Tensor] = _kernels(x.device.type).forward(x, *settings)
    return found


def _backward(grad: Tensor, x: Tensor | None, variance: Tensor, *settings: Any) -> Tensor:
    dx: Tensor = _kernels(grad.device.type).backward(grad, x, variance, *settings)
    return dx


torch.library.impl("adanorm::norm", ("cpu", "cuda"), _forward)
torch.library.impl("adanorm::norm_backward", ("cpu", "cuda"), _backward)


@torch.library.register_fake("adanorm::norm")  # type: ignore[untyped-decorator]
def _forward_fake(x: Tensor, *settings: Any) -> tuple[Tensor, Tensor]:
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    z = torch.empty_like(x, memory_format=torch.contiguous_format)
    return z, x.new_empty(x.shape[:-1], dtype=wide)


@torch.library.register_fake("adanorm::norm_backward")  # type: ignore[untyped-decorator]
def _backward_fake(grad: Tensor, x: Tensor | None, variance: Tensor, *settings: Any) -> Tensor:
    return torch.empty_like(grad, memory_format=torch.contiguous_format)


def _keep(ctx: Any, inputs: tuple[Any, ...], variance: Tensor) -> None:
    """Save the variance, and x unless the gradient is a multiple of dl/dz."""
    x, k, _, detach_mean, detach_variance, *_ = inputs
    ctx.save_for_backward(None if detach_mean and detach_variance and k == 0 else x, variance)
    ctx.settings = inputs[1:]


class _PlainNorm(torch.autograd.Function):
    """The operator for plain tensors, past the dispatcher, its settings as one argument.

    Each would cost more than a small norm does.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, settings: tuple[Any, ...]) -> Tensor:
        z, variance = _forward(x, *settings)
        _keep(ctx, (x, *settings), variance)
        return z

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _backward(grad, *ctx.saved_tensors, *ctx.settings), None


class _Norm(torch.autograd.Function):
    """The operator's gradient, in the form that torch.func needs: it sees no registered one (torch 2.13)."""

    @staticmethod
    def forward(*inputs: Any) -> Any:
        return torch.ops.adanorm.norm.default(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        _keep(ctx, inputs, output[1])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
        arguments = (grad, *ctx.saved_tensors, *ctx.settings)
        if not torch.compiler.is_compiling() and torch._C._are_functorch_transforms_active():
            dx = _Gradient.apply(*arguments)  # type: ignore[no-untyped-call]
        else:
            dx = torch.ops.adanorm.norm_backward.default(*arguments)
        return dx, *(None,) * len(ctx.settings)


class _Gradient(torch.autograd.Function):
    """The gradient as an operator, which has no gradient of its own."""

    @staticmethod
    def forward(*inputs: Any) -> Any:
        return torch.ops.adanorm.norm_backward.default(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> None:
        raise RuntimeError("the norms are once_differentiable: no backend has a second derivative")


for _operator, _function in (("adanorm::norm", _Norm), ("adanorm::norm_backward", _Gradient)):
    torch.library.register_autograd(_operator, _function.backward, setup_context=_function.setup_context)
