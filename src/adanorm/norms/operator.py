"""The closed form as one differentiable function, by our kernels or by PyTorch's operations.

The kernels are PyTorch's operators adanorm::norm and adanorm::norm_backward, so that torch.compile,
torch.export and fake tensors see one operator. Letters as in norms.functional; `statistic` is what
the forward pass keeps of a row.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from adanorm.norms import eager
from adanorm.norms.reference import Numerics, reference_formula
from adanorm.norms.statistics import upcast

SETTINGS = "float k, float C, bool detach_mean, bool detach_variance, float eps, bool released, bool centered"
torch.library.define("adanorm::norm", f"(Tensor x, {SETTINGS}) -> (Tensor z, Tensor statistic)")
torch.library.define(
    "adanorm::norm_backward", f"(Tensor grad, Tensor? x, Tensor statistic, {SETTINGS}) -> Tensor"
)


def norm(x: Tensor, *settings: Any, fused: bool) -> Tensor:
    """Return z (..., H), by a kernel if `fused`; the settings are those of the operator, in its order."""
    z: Tensor
    is_compiling, is_transformed = torch.compiler.is_compiling(), torch._C._are_functorch_transforms_active()
    if forward_ad._current_level >= 0 or (is_compiling and (is_transformed or not fused)):
        z = _stepwise(x, *settings)
    elif is_transformed:
        z = _Norm.apply(x, OPERATORS if fused else EAGER, *settings)[0]  # type: ignore[no-untyped-call]
    elif not fused or (not is_compiling and _is_plain(x)):
        z = _apply_plain(x, KERNELS if fused else EAGER, settings)
    else:
        z = torch.ops.adanorm.norm.default(x, *settings)[0]
    return z


def _is_plain(x: Tensor) -> bool:
    """Return whether x has numbers, and nothing but autograd looks at what becomes of them."""
    is_own = type(x) in (Tensor, nn.Parameter) and x.device.type in ("cpu", "cuda")
    return is_own and torch._C._len_torch_dispatch_stack() == 0


def _stepwise(
    x: Tensor,
    k: float,
    C: float,
    detach_mean: bool,
    detach_variance: bool,
    eps: float,
    released: bool,
    centered: bool,
) -> Tensor:
    """Return z (..., H) in x's type by the definition, of which every derivative is autograd's own."""
    numerics: Numerics = "released" if released else "paper"
    stops = {"detach_mean": detach_mean, "detach_variance": detach_variance}
    z = reference_formula(upcast(x), k=k, C=C, **stops, eps=eps, numerics=numerics, centered=centered)
    return z.to(x.dtype)


class Code(NamedTuple):
    """What computes z and the statistic of x, and dl/dx of dl/dz, x (or None) and the statistic."""

    forward: Callable[..., tuple[Tensor, Tensor]]
    backward: Callable[..., Tensor]


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


def _backward(grad: Tensor, x: Tensor | None, statistic: Tensor, *settings: Any) -> Tensor:
    dx: Tensor = _kernels(grad.device.type).backward(grad, x, statistic, *settings)
    return dx


torch.library.impl("adanorm::norm", ("cpu", "cuda"), _forward)
torch.library.impl("adanorm::norm_backward", ("cpu", "cuda"), _backward)
KERNELS = Code(_forward, _backward)  # past the dispatcher, which would cost more than a small norm does
OPERATORS = Code(torch.ops.adanorm.norm.default, torch.ops.adanorm.norm_backward.default)
EAGER = Code(eager.forward, eager.backward)


@torch.library.register_fake("adanorm::norm")  # type: ignore[untyped-decorator]
def _forward_fake(x: Tensor, *settings: Any) -> tuple[Tensor, Tensor]:
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    z = torch.empty_like(x, memory_format=torch.contiguous_format)
    return z, x.new_empty(x.shape[:-1], dtype=wide)


@torch.library.register_fake("adanorm::norm_backward")  # type: ignore[untyped-decorator]
def _backward_fake(grad: Tensor, x: Tensor | None, statistic: Tensor, *settings: Any) -> Tensor:
    return torch.empty_like(grad, memory_format=torch.contiguous_format)


def _needed(
    x: Tensor, k: float, C: float, detach_mean: bool, detach_variance: bool, *_: Any
) -> Tensor | None:
    """Return x unless dl/dx is a multiple of dl/dz."""
    return None if detach_mean and detach_variance and k == 0 else x


class _PlainNorm(torch.autograd.Function):
    """The closed form of tensors that nothing transforms, its settings as one argument.

    Each would cost more than a small norm does.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, code: Code, settings: tuple[Any, ...]) -> Tensor:
        z, statistic = code.forward(x, *settings)
        ctx.save_for_backward(_needed(x, *settings), statistic)
        ctx.code, ctx.settings = code, settings
        return z

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _gradient(ctx, grad), None, None


# Past Function.apply, which looks for torch.func's wrappers at every call: there are none.
_apply_plain: Callable[..., Tensor] = super(torch.autograd.Function, _PlainNorm).apply


class _Norm(torch.autograd.Function):
    """The same in the form that torch.func needs, which sees no gradient of an operator (torch 2.13)."""

    @staticmethod
    def forward(x: Tensor, code: Code, *settings: Any) -> tuple[Tensor, Tensor]:
        return code.forward(x, *settings)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        x, ctx.code, *ctx.settings = inputs
        ctx.save_for_backward(_needed(x, *ctx.settings), output[1])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
        return _gradient(ctx, grad), *(None,) * (1 + len(ctx.settings))

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], x: Tensor, *rest: Any) -> tuple[Any, tuple[int, int]]:
        """Rows are rows, whatever axes they lie along."""
        return _Norm.apply(x.movedim(in_dims[0], 0), *rest), (0, 0)  # type: ignore[no-untyped-call]


def _gradient(ctx: Any, grad: Tensor) -> Tensor:
    """Return dl/dx, differentiable where a derivative of it may be asked for."""
    x, statistic = ctx.saved_tensors
    dx: Tensor
    if torch.is_grad_enabled():
        dx = _Gradient.apply(grad, x, statistic, ctx.code, *ctx.settings)  # type: ignore[no-untyped-call]
    else:
        dx = ctx.code.backward(grad, x, statistic, *ctx.settings)
    return dx


class _Gradient(torch.autograd.Function):
    """dl/dx of dl/dz and x; its own gradient is that of the definition."""

    @staticmethod
    def forward(grad: Tensor, x: Tensor | None, statistic: Tensor, code: Code, *settings: Any) -> Tensor:
        return code.backward(grad, x, statistic, *settings)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        grad, x, statistic, ctx.code, *ctx.settings = inputs
        ctx.save_for_backward(grad, x, statistic)

    @staticmethod
    def backward(ctx: Any, grad_of_dx: Tensor) -> tuple[Tensor | None, ...]:
        grad, x, statistic = ctx.saved_tensors
        rest = (None,) * (2 + len(ctx.settings))
        if x is None:  # a multiple of dl/dz, as is its gradient
            return _Gradient.apply(grad_of_dx, None, statistic, ctx.code, *ctx.settings), None, *rest  # type: ignore[no-untyped-call]

        def first(x: Tensor, grad: Tensor) -> Tensor:
            found: Tensor = torch.func.vjp(lambda x: _stepwise(x, *ctx.settings), x)[1](grad)[0]
            return found

        dx, dgrad = torch.func.vjp(first, x, grad)[1](grad_of_dx)
        return dgrad, dx, *rest

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Any, int]:
        """Rows are rows; what has no axis of the batch is the same along it."""
        tensors = [
            x if x is None else x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
            for x, dim in zip(inputs[:3], in_dims, strict=False)
        ]
        return _Gradient.apply(*tensors, *inputs[3:]), 0  # type: ignore[no-untyped-call]


# The operators by themselves, as compilers and tensors that are none of PyTorch's own meet them.


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    _Norm.setup_context(ctx, (inputs[0], OPERATORS, *inputs[1:]), output)


def _back(ctx: Any, grad: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    return OPERATORS.backward(grad, *ctx.saved_tensors, *ctx.settings), *(None,) * len(ctx.settings)


def _keep_gradient(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _Gradient.setup_context(ctx, (*inputs[:3], OPERATORS, *inputs[3:]), output)


def _gradient_back(ctx: Any, grad_of_dx: Tensor) -> tuple[Tensor | None, ...]:
    return _Gradient.backward(ctx, grad_of_dx)[:-1]


torch.library.register_autograd("adanorm::norm", _back, setup_context=_keep)
torch.library.register_autograd("adanorm::norm_backward", _gradient_back, setup_context=_keep_gradient)
