"""Which code computes a norm: kernels of ours, or PyTorch's own operations."""

from __future__ import annotations

from importlib.metadata import version
from importlib.util import find_spec
from typing import Literal, get_args

import torch

Backend = Literal["auto", "eager", "fused"]

COMPILERS = {"cpu": "numba", "cuda": "triton"}  # of the kernels, by the type of device
AVAILABLE = {device: package for device, package in COMPILERS.items() if find_spec(package)}
PRECISE = torch.float64  # auto leaves it to eager, the reference


def is_fused(backend: Backend, device: str, dtype: torch.dtype) -> bool:
    """Return whether our kernels compute a norm of a tensor of this type on this type of device."""
    if backend == "auto":
        return device in AVAILABLE and dtype.is_floating_point and dtype != PRECISE
    return backend == "fused"


def check(backend: str) -> None:
    """Raise ValueError for a backend that does not exist."""
    if backend not in get_args(Backend):
        raise ValueError(f"backend={backend!r}: choose auto, eager or fused")


def describe(backend: Backend, device: str) -> str:
    """Return in one line what computes float32 norms, such as `fused: numba 0.68.1`.

    Raises ValueError where `fused` is asked for and cannot be had.
    """
    if is_fused(backend, device, torch.float32) and device in AVAILABLE:
        return f"fused: {AVAILABLE[device]} {version(AVAILABLE[device])}"
    missing = f"{COMPILERS[device]} is not installed" if device in COMPILERS else f"no kernels for {device}"
    if backend == "fused":
        raise ValueError(f"norm.backend=fused: {missing}; choose auto or eager")
    return "eager: as asked" if backend == "eager" else f"eager: {missing}"
