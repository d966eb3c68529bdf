"""Compiling loops with Numba, and calling them by address, which costs least."""

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
UNWRAPPED: Any = {
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}  # saves a sixth of the compile time
# Sums may be reordered, which lets them be vectorized; infinities and NaN keep their meaning.
# Inlining makes freshly compiled code round in the same way as code that comes from the cache
# later.
compiled: Callable[[F], F] = njit(
    forceinline=True,
    nogil=True,
    error_model="numpy",
    fastmath={"reassoc", "contract", "nsz"},
    **UNWRAPPED,
)
SOURCES = Path(__file__).parents[2]


@cache
def entry(function: Kernel) -> Kernel:
    """Return a kernel as a C function of one address; arrays per call cost as a small norm does."""
    # Numba's cache checks only the file of the function itself, but inlined code stands in other
    # files.
    function.__qualname__ = f"{function.__name__}_{_sources()}"
    code = _with_a_cache(lambda: cfunc(types.void(types.voidptr), cache=True)(function))
    call: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address)
    call.code = code  # a reference: the machine code is freed together with it
    return call  # releases the interpreter's lock while it runs


def cached_njit(function: F) -> F:
    """Return a function compiled at its first call, or taken from Numba's cache."""
    return _with_a_cache(lambda: njit(cache=True)(function))


def _with_a_cache(compile_: Callable[[], Any]) -> Any:
    try:
        return compile_()
    except RuntimeError as error:
        if "no locator" not in str(error):
            raise
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


@cache
def _sources() -> str:
    """Return eight hexadecimal digits that change with every file of kernels."""
    sources = b"".join(path.read_bytes() for path in sorted(SOURCES.glob("*/kernels/*.py")))
    return hashlib.sha256(sources).hexdigest()[:8]
