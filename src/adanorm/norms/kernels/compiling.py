"""How Numba compiles this code's loops, and how they are called: by address, which costs least."""

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


@cache
def entry(function: Kernel) -> Kernel:
    """Return a kernel of one address as C's: arrays made at each call cost what a small norm does."""
    # Numba looks at the one file that a function stands in; what is inlined stands in others.
    function.__qualname__ = f"{function.__name__}_{_sources()}"
    code = _with_a_cache(lambda: cfunc(types.void(types.voidptr), cache=True)(function))
    call: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address)
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
