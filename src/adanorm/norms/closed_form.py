"""The paper's family of norms over rows (..., H): its definition, faster kernels, which computes."""

import math
import os
import sysconfig
import tempfile
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any, Literal, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn import functional as F

from adanorm.norms.base import Norm, check_floating_point, upcast

Backend = Literal["auto", "eager", "fused"]
Function = TypeVar("Function", bound=Callable[..., Any])

COMPILERS = {"cpu": "numba", "cuda": "triton"}  # the kernels' compiler for each type of device
DTYPES = (torch.float32, torch.bfloat16, torch.float16)  # types that the kernels take
Numerics = Literal["paper", "released"]


def _missing(device: str) -> str | None:
    """Return what the kernels for a type of device lack on this machine, or None."""
    package = COMPILERS[device]
    if find_spec(package) is None:
        return f"{package} is not installed"
    if package == "numba":
        return None
    headers = Path(sysconfig.get_paths()["include"], "Python.h")
    # Triton compiles its launcher with the machine's C compiler.
    can_compile = headers.exists() and (os.environ.get("CC") or which("gcc") or which("clang"))
    return None if can_compile else "triton finds no C compiler with Python's headers"


MISSING = {device: _missing(device) for device in COMPILERS}


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


def cached_njit(function: Function) -> Function:
    """Return a function compiled at its first call, or taken from Numba's cache.

    Without Numba it is returned as it is: the same, far slower.
    """
    if MISSING["cpu"] is not None:
        return function
    from numba import njit

    return with_a_cache(lambda: njit(cache=True)(function))


def with_a_cache(compile_: Callable[[], Any]) -> Any:
    """Return what a function compiles with Numba's cache, in a temporary folder if need be."""
    try:
        return compile_()
    except RuntimeError as error:
        if "no locator" not in str(error):
            raise
        import numba

        # Neither the checkout nor the home folder is writable.
        numba.config.CACHE_DIR = str(_temporary_folder())  # type: ignore[attr-defined]
        return compile_()


def _temporary_folder() -> Path:
    """Return a folder that nobody else can write to, because code from the cache is run."""
    folder = Path(tempfile.gettempdir(), f"adanorm-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o77077 != 0o40000:
        return Path(tempfile.mkdtemp(prefix="adanorm-"))
    return folder


def is_plain(x: Tensor) -> bool:
    """Return whether x has numbers in memory and nothing but autograd tracks the computation.

    It is false while torch compiles, exports or traces, under the transforms of torch.func, in
    forward mode, and for subclasses of Tensor, such as DTensor and fake tensors.
    """
    return (
        not torch.compiler.is_compiling()
        and type(x) in (Tensor, nn.Parameter)
        and torch._C._has_storage(x)
        and torch._C._len_torch_dispatch_stack() == 0
        and not torch._C._are_functorch_transforms_active()
        and not torch._C._is_tracing()
        and forward_ad._current_level < 0
    )


def is_fused(backend: Backend, x: Tensor) -> bool:
    """Return whether the kernels compute a norm of x; `fused` does not ask if they compile."""
    device = x.device.type
    if backend == "eager" or x.dtype not in DTYPES or device not in COMPILERS:
        return False
    return (backend == "fused" or MISSING[device] is None) and is_plain(x)


def computed_by(norm: Norm, backend: str, device: str, dtype: torch.dtype = torch.float32) -> str:
    """Return in one line what computes a norm of a type, such as `fused: numba 0.68.1`.

    Raises ValueError if `fused` is asked for and cannot run here.
    """
    if not norm.has_kernels:
        return f"eager: {type(norm).__name__} has no kernels of ours"
    if backend == "eager":
        return "eager: as asked"
    missing = MISSING.get(device, f"no kernels for {device}")
    if missing is None:
        if dtype not in DTYPES:
            return f"eager: {str(dtype).removeprefix('torch.')}"
        return f"fused: {COMPILERS[device]} {import_module(COMPILERS[device]).__version__}"
    if backend == "fused":
        raise ValueError(f"norm.backend=fused: {missing}; choose auto or eager")
    return f"eager: {missing}"
