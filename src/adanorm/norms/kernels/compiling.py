"""How Numba compiles this code's loops, and how they are called: by address, which costs least."""

from __future__ import annotations

import ctypes
import hashlib
import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba import cfunc, njit, types

Kernel = Callable[..., None]
F = TypeVar("F", bound=Callable[..., Any])
UNWRAPPED: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # a sixth of the time to compile
# Sums may be reordered, which vectorizes them; infinities and NaN keep their meaning.
# Inlined, or what was just compiled rounds in another way than what comes from the cache later.
compiled: Callable[[F], F] = njit(
    forceinline=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"}, **UNWRAPPED
)  # fmt: skip
SOURCES = Path(__file__).parents[2]
# What a kernel takes, a letter an argument: i an integer, n a float32, p a pointer to float32, l one to
# integers, v one to anything. As Numba has it and as C has it.
KINDS: dict[str, tuple[Any, Any]] = {
    "i": (types.int64, ctypes.c_int64),
    "p": (types.CPointer(types.float32), ctypes.c_void_p),  # type: ignore[no-untyped-call]
    "n": (types.float32, ctypes.c_float),
    "l": (types.CPointer(types.int64), ctypes.c_void_p),  # type: ignore[no-untyped-call]
    "v": (types.voidptr, ctypes.c_void_p),
}


@cache
def entry(function: Kernel, takes: str) -> Kernel:
    """Return a kernel as a C function of addresses: arrays made at each call cost what a small norm does.

    `takes` has a letter of KINDS for each argument.
    """
    # Numba looks at the one file that a function stands in; what is inlined stands in others.
    function.__qualname__ = f"{function.__name__}_{_sources()}"
    signature = types.void(*(KINDS[kind][0] for kind in takes))
    code = _with_a_cache(lambda: cfunc(signature, cache=True)(function))
    call: Any = ctypes.CFUNCTYPE(None, *(KINDS[kind][1] for kind in takes))(code.address)
    call.code = code  # whose machine code goes when it does
    return call  # holds no lock while it runs


def cached_njit(function: F) -> F:
    """Return a function compiled at its first call, or taken from Numba's cache."""
    return _with_a_cache(lambda: njit(cache=True)(function))


def _with_a_cache(compile_: Callable[[], Any]) -> Any:
    try:
        return compile_()
    except RuntimeError as error:
        if "no locator" not in str(error):
            raise
        # Neither the checkout nor the home can be written to.
        numba.config.CACHE_DIR = str(_temporary_folder())  # type: ignore[attr-defined]
        return compile_()


def _temporary_folder() -> Path:
    """Return a folder that nobody else can write to: what lies in the cache is run."""
    folder = Path(tempfile.gettempdir(), f"adanorm-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o77077 != 0o40000:
        return Path(tempfile.mkdtemp(prefix="adanorm-"))
    return folder


@cache
def _sources() -> str:
    """Return eight hexadecimal digits that change with any file of kernels."""
    sources = b"".join(path.read_bytes() for path in sorted(SOURCES.glob("*/kernels/*.py")))
    return hashlib.sha256(sources).hexdigest()[:8]
