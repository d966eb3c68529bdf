"""How Numba compiles this code's loops, and how they are called: by address, which costs least."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from numba import cfunc, njit, types

# Sums may be reordered, which vectorizes them; infinities and NaN keep their meaning.
# Inlined, or what was just compiled rounds in another way than what comes from the cache later.
compiled = njit(forceinline=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
Kernel = Callable[..., None]
SOURCES = Path(__file__).parents[2]


@cache
def entry(function: Kernel, takes: str, dtype: torch.dtype) -> Kernel:
    """Return a kernel as a C function of addresses: arrays made at each call cost what a small norm does.

    `takes` has a letter an argument: i an integer, p a pointer to numbers of the type, n such a
    number, b true or false, u a pointer to bytes, l a pointer to integers.
    """
    is_double = dtype == torch.float64
    number = types.float64 if is_double else types.float32
    kinds = {
        "i": (types.int64, ctypes.c_int64),
        "p": (types.CPointer(number), ctypes.c_void_p),  # type: ignore[no-untyped-call]
        "n": (number, ctypes.c_double if is_double else ctypes.c_float),
        "b": (types.boolean, ctypes.c_bool),
        "u": (types.CPointer(types.uint8), ctypes.c_void_p),  # type: ignore[no-untyped-call]
        "l": (types.CPointer(types.int64), ctypes.c_void_p),  # type: ignore[no-untyped-call]
    }
    taken, passed = zip(*(kinds[kind] for kind in takes), strict=True)
    made = _made(function, types.void(*taken))
    _KEPT.append(made)  # its machine code goes when it does
    address: Any = made.address
    return ctypes.CFUNCTYPE(None, *passed)(address)  # holds no lock while it runs


_KEPT: list[Any] = []


def _made(function: Kernel, signature: Any) -> Any:
    """Return a function compiled, or from Numba's cache where there is a folder for that."""
    # Numba looks at the one file that a function stands in; what is inlined stands in others.
    function.__qualname__ = f"{function.__name__}_{_sources()}"
    try:
        return cfunc(signature, cache=True)(function)
    except RuntimeError as error:
        if "no locator" not in str(error):
            raise
        return cfunc(signature)(function)


@cache
def _sources() -> str:
    """Return eight hexadecimal digits that change with any file of kernels."""
    digest = hashlib.sha256()
    for path in sorted(SOURCES.glob("*/kernels/*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]
