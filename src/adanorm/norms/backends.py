"""Which code computes a norm: kernels of ours, or PyTorch's own operations."""

from __future__ import annotations

import os
import sysconfig
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Literal, get_args

import torch

from adanorm.norms.base import Norm

Backend = Literal["auto", "eager", "fused"]

COMPILERS = {"cpu": "numba", "cuda": "triton"}  # of the kernels, by the type of device


def _missing(device: str) -> str | None:
    """Return what a type of device lacks here for our kernels, None where nothing is."""
    package = COMPILERS[device]
    if find_spec(package) is None:
        return f"{package} is not installed"
    headers = Path(sysconfig.get_paths()["include"], "Python.h")
    # Triton has its launcher compiled by the machine's C compiler.
    can_compile = headers.exists() and (os.environ.get("CC") or which("gcc") or which("clang"))
    return (
        "triton finds no C compiler with Python's headers"
        if package == "triton" and not can_compile
        else None
    )


MISSING = {device: _missing(device) for device in COMPILERS}


def is_fused(backend: Backend, device: str, dtype: torch.dtype) -> bool:
    """Return whether our kernels compute a norm of a tensor of this type on this type of device.

    `auto` leaves float64 to eager, the reference, and whatever the kernels cannot do here.
    """
    if backend == "auto":
        is_narrow = dtype.is_floating_point and dtype != torch.float64
        return is_narrow and device in COMPILERS and MISSING[device] is None
    return backend == "fused"


def check(backend: str) -> None:
    """Raise ValueError for a backend that does not exist."""
    if backend not in get_args(Backend):
        raise ValueError(f"backend={backend!r}: choose auto, eager or fused")


def describe(norm: Norm, backend: str, device: str, dtype: torch.dtype = torch.float32) -> str:
    """Return in one line what computes a norm's tensors of a type, such as `fused: numba 0.68.1`.

    Raises ValueError where `fused` is asked for and cannot be had.
    """
    name = type(norm).__name__
    if not norm.kernels:
        return f"eager: {name} has no kernels of ours"
    if backend == "eager":
        return "eager: as asked"
    missing = MISSING[device] if device in norm.kernels else f"no kernels of {name} for {device}"
    if missing is None:
        is_wide = backend == "auto" and dtype == torch.float64
        return "eager: float64" if is_wide else f"fused: {COMPILERS[device]} {version(COMPILERS[device])}"
    if backend == "fused":
        raise ValueError(f"norm.backend=fused: {missing}; choose auto or eager")
    return f"eager: {missing}"
