"""Settings of the whole process that a norm must leave as they are.

A norm that changes one changes every module beside it, and what a run of LayerNorm would compute.
"""

import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.nn.modules import module as modules

HOOKS_OF_ALL: list[dict[Any, Any]] = [
    hooks
    for name, hooks in vars(modules).items()
    if name.startswith("_global") and isinstance(hooks, dict)
]
MODULES = [cls for cls in vars(nn).values() if isinstance(cls, type)]
# What every network runs, as (where it is defined, its name).
FUNCTIONS: list[tuple[Any, str]] = [
    (holder, name)
    for holder in (functional, nn.init, *MODULES)
    for name, function in vars(holder).items()
    if callable(function)
]
ONEDNN: Any = torch.backends.mkldnn
# torch.compile and Triton set variables for processes of their own.
OF_COMPILERS = ("TORCHINDUCTOR_", "TRITON_")


def _set_hooks_of_all(before: list[dict[Any, Any]]) -> None:
    for hooks, kept in zip(HOOKS_OF_ALL, before, strict=True):
        hooks.clear()
        hooks.update(kept)


def _functions() -> list[Any]:
    return [vars(holder).get(name) for holder, name in FUNCTIONS]


def _set_functions(before: list[Any]) -> None:
    for (holder, name), function in zip(FUNCTIONS, before, strict=True):
        if vars(holder).get(name) is not function:
            setattr(holder, name, function)


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(OF_COMPILERS)}


def _set_environment(before: dict[str, str]) -> None:
    for name in _environment().keys() - before.keys():
        del os.environ[name]
    os.environ.update(before)


def _set_default_device(device: torch.device) -> None:
    # torch would enter a mode for the CPU too, and every call would be slower.
    torch.set_default_device(None if device.type == "cpu" else device)


Setting = tuple[Callable[[], Any], Callable[[Any], Any]]  # how to read and to write it


def _flag(holder: Any, name: str) -> Setting:
    return partial(getattr, holder, name), partial(setattr, holder, name)


def _attention(kernel: str) -> Setting:
    kernels = torch.backends.cuda
    return getattr(kernels, f"{kernel}_sdp_enabled"), getattr(kernels, f"enable_{kernel}_sdp")


# The device comes first: other settings are read with a tensor.
SETTINGS: dict[str, Setting] = {
    "the default device": (torch.get_default_device, _set_default_device),
    "the default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "the precision of oneDNN's products": _flag(ONEDNN.matmul, "fp32_precision"),
    "the precision of matrix products": (
        torch.get_float32_matmul_precision,
        torch.set_float32_matmul_precision,
    ),
    "the rounding of bf16 products": _flag(
        torch.backends.cuda.matmul, "allow_bf16_reduced_precision_reduction"
    ),
    "the mode of gradients": (torch.is_grad_enabled, torch._C._set_grad_enabled),
    "the threads of gradients": (
        torch._C._is_multithreading_enabled,
        torch._C._set_multithreading_enabled,
    ),
    "autocast": (
        partial(torch.is_autocast_enabled, "cpu"),
        partial(torch.set_autocast_enabled, "cpu"),
    ),
    "the dtype of autocast": (
        partial(torch.get_autocast_dtype, "cpu"),
        partial(torch.set_autocast_dtype, "cpu"),
    ),
    "oneDNN": (torch._C._get_mkldnn_enabled, torch._C._set_mkldnn_enabled),
    "cuDNN": (torch._C._get_cudnn_enabled, torch._C._set_cudnn_enabled),
    "determinism in cuDNN": (
        torch._C._get_cudnn_deterministic,
        torch._C._set_cudnn_deterministic,
    ),
    "TF32 in cuDNN": (torch._C._get_cudnn_allow_tf32, torch._C._set_cudnn_allow_tf32),
    "the search for kernels in cuDNN": (
        torch._C._get_cudnn_benchmark,
        torch._C._set_cudnn_benchmark,
    ),
    "the flash kernel of attention": _attention("flash"),
    "the plain kernel of attention": _attention("math"),
    "the lean kernel of attention": _attention("mem_efficient"),
    "cuDNN's kernel of attention": _attention("cudnn"),
    "denormal numbers": (
        lambda: not torch.tensor([1e-40]).mul(1).any(),
        torch.set_flush_denormal,
    ),
    "NumPy's errors": (np.geterr, lambda errors: np.seterr(**errors)),
    "the number of threads": (torch.get_num_threads, torch.set_num_threads),
    "the detection of anomalies": (torch.is_anomaly_enabled, torch.set_anomaly_enabled),
    "deterministic algorithms": (
        torch._C._get_deterministic_algorithms,
        torch._C._set_deterministic_algorithms,
    ),
    "torch's warnings": (torch.is_warn_always_enabled, torch.set_warn_always),
    "the hooks of all modules": (
        lambda: [dict(hooks) for hooks in HOOKS_OF_ALL],
        _set_hooks_of_all,
    ),
    "torch's functions": (_functions, _set_functions),
    "the current folder": (os.getcwd, os.chdir),
    "the environment": (_environment, _set_environment),
}


def read_settings() -> dict[str, Any]:
    """Return all settings by name."""
    return {name: read() for name, (read, _) in SETTINGS.items()}


def restore_settings(before: dict[str, Any]) -> list[str]:
    """Set what differs from `before` back, and return the names of what differed."""
    changed = []
    for name, (read, write) in SETTINGS.items():
        if read() != before[name]:
            changed.append(name)
            write(before[name])
    return changed


@contextmanager
def settings_kept(action: str, *exempt: str) -> Iterator[None]:
    """Restore settings after the block; raises ValueError if one differs that is not exempt.

    `os._exit` raises SystemExit in the block: a process must not end without a word.
    """
    before = read_settings()
    try:
        with patch.object(os, "_exit", sys.exit):
            yield
    finally:
        changed = [name for name in restore_settings(before) if name not in exempt]
    if changed:
        raise ValueError(f"{action} changes {changed[0]} of the whole process")


@contextmanager
def everything_restored() -> Iterator[None]:
    """Restore settings and random states after the block, whatever a norm does to them."""
    before = read_settings()
    state, numpys = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            random.setstate(state)
            np.random.set_state(numpys)
            restore_settings(before)
