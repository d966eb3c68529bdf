"""The paper's family of norms over rows (..., H): its definition, and faster kernels."""

import math
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from adanorm.norms.backends import Backend, is_fused, is_plain
from adanorm.norms.base import check_floating_point, upcast

Numerics = Literal["paper", "released"]


class Member(NamedTuple):
    """A member of the family: closed_form's settings, in the order that the kernels unpack."""

    k: float = 0.0
    C: float = 1.0
    detach_mean: bool = False
    detach_variance: bool = False
    eps: float = 1e-5
    numerics: Numerics = "paper"


def closed_form(x: Tensor, member: Member, backend: Backend = "auto") -> Tensor:
    """Return C * (1 - k*y) * y with y = (x - mean)/std over the last axis; (..., H) like x.

    The factor C * (1 - k*y) carries no gradient, nor does a detached statistic (Xu et al. 2019,
    sections 3 and 4). `paper` numerics take the biased variance with eps inside the root, like
    torch's LayerNorm. `released` numerics add eps to the unbiased standard deviation, like the
    authors' code. With g = C * (1 - k*y) * dl/dz the gradient is

        dl/dx = (1/std) * (g - a * mean(g) - b * y * mean(g * y)),

    where a = 0 if the mean is detached, b = 0 if the variance is, else 1. Half precision is
    computed in float32 and, under autocast, returned in float32, as torch's LayerNorm does on CUDA.
    Derivatives of any order are those of the definition. Raises NotImplementedError for integers.

    Kernels compute plain tensors in float32 or half precision: they read and write once, and save x
    and one number per row for the gradient. The definition computes everything else. In float32 the
    two sum in different orders; each is within 2e-6 * (1 + max |x|/std) of exact, relative to a
    row's largest value.
    """
    check_floating_point(x)
    device = x.device.type
    is_autocast = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
    if is_autocast and x.dtype != torch.float64:
        x = x.float()
    return _apply(x, member) if is_fused(backend, x) else definition(x, member)


def definition(x: Tensor, member: Member) -> Tensor:
    """Return z (..., H) in x's type, by PyTorch operations that autograd differentiates."""
    k, C, detach_mean, detach_variance, eps, numerics = member
    wide = upcast(x)
    if numerics == "paper" and not (detach_mean or detach_variance):
        y = F.layer_norm(
            wide,
            wide.shape[-1:],
            eps=eps,
        )
    else:
        mean = wide.mean(-1, keepdim=True)
        variance = (wide - mean).square().mean(-1, keepdim=True)
        std = deviation(
            variance,
            wide.shape[-1],
            member,
        )
        if detach_mean:
            mean = mean.detach()
        if detach_variance:
            std = std.detach()
        y = (wide - mean) / std
    if k == 0 and C == 1:
        return y.to(x.dtype)
    phi = C * (1 - k * y).detach()
    return (phi * y).to(x.dtype)


def deviation(variance: Tensor, features: int, member: Member) -> Tensor:
    """Return the divisor of rows from their biased variance; NaN for an infinite variance."""
    variance = variance.masked_fill(variance == math.inf, math.nan)
    if member.numerics == "paper":
        return (variance + member.eps).sqrt()
    unbiased = variance * (features / (features - 1))
    is_constant = variance == 0  # the root has no derivative there
    return unbiased.masked_fill(is_constant, 1).sqrt().masked_fill(is_constant, 0) + member.eps


@cache
def _kernels(device: str) -> Any:
    """Return the module with the kernels `forward` and `backward` for a type of device."""
    return import_module(
        f"adanorm.norms.kernels.{'triton_rows' if device == 'cuda' else 'numba_rows'}"
    )


class _Fused(torch.autograd.Function):
    """The closed form of a plain tensor, computed by the kernels."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, member: Member) -> Tensor:
        kernels = _kernels(x.device.type)
        z: Tensor
        z, variance = kernels.forward(x, member)
        is_multiple = member.k == 0 and member.detach_mean and member.detach_variance
        ctx.save_for_backward(None if is_multiple else x, variance)  # dl/dx is a multiple of dl/dz
        ctx.kernels, ctx.member = kernels, member
        return z

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, variance = ctx.saved_tensors
        if torch.is_grad_enabled() or not is_plain(grad):  # a second derivative may follow
            return _gradient(grad, x, variance, ctx.member), None
        dx = ctx.kernels.backward(
            grad,
            x,
            variance,
            ctx.member,
        )
        return dx, None


# This skips Function.apply, which looks for torch.func's wrappers at every call: a plain tensor has
# none.
_apply: Callable[[Tensor, Member], Tensor] = super(torch.autograd.Function, _Fused).apply


def _gradient(grad: Tensor, x: Tensor | None, variance: Tensor, member: Member) -> Tensor:
    """Return dl/dx by differentiable operations; x is None if it is a multiple of dl/dz."""
    if x is None:
        std = deviation(
            variance.unsqueeze(-1),
            grad.shape[-1],
            member,
        )
        return (member.C / std * grad).to(grad.dtype)
    is_differentiable = torch.is_grad_enabled()
    with torch.enable_grad():
        leaf = x.view_as(x)  # outside x's own graph
        z = definition(leaf, member)
        return torch.autograd.grad(
            z,
            leaf,
            grad,
            create_graph=is_differentiable,
        )[0]
