"""Which code computes a norm: its definition, or the suite's kernels for the paper's family."""

import os
import sysconfig
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from adanorm.norms.base import Norm

Backend = Literal["auto", "eager", "fused"]
F = TypeVar("F", bound=Callable[..., Any])

COMPILERS = {"cpu": "numba", "cuda": "triton"}  # the kernels' compiler for each type of device
DTYPES = (torch.float32, torch.bfloat16, torch.float16)  # types that the kernels take


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


def cached_njit(function: F) -> F:
    """Return the function compiled by Numba, or as it is without Numba: the same, far slower."""
    if MISSING["cpu"] is not None:
        return function
    from adanorm.norms.kernels import compiling

    return compiling.cached_njit(function)


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


def describe(norm: Norm, backend: str, device: str, dtype: torch.dtype = torch.float32) -> str:
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
