"""A process: its role in its run, how it is started and ended, and which arithmetic it uses."""

import os
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux's prctl
VARIABLE = (
    "ADANORM_ARITHMETIC"  # portable: the instructions that x86 processors share (docs/records.md)
)
PRODUCTS = (
    "ADANORM_PRODUCTS"  # chooses the library of matrix products, overriding the rule of products()
)
HELD = {
    PRODUCTS: "onednn",
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_CBWR": "COMPATIBLE",  # MKL's only branch for processors of other makers
    "NUMBA_CPU_NAME": "haswell",
    "NUMBA_CPU_FEATURES": "",  # the features of haswell, not of this processor
}
# Compiled products that oneDNN and torch keep, one per batch shape; their default of 1,024 takes
# 400 MB more.
CACHES = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64", "LRU_CACHE_CAPACITY": "64"}


def is_first_process() -> bool:
    """Return whether this process is the first of its run, the only one that prints."""
    return os.environ.get("RANK", "0") == "0"


def torchrun(processes: int) -> list[str]:
    """Return the command that runs an appended `-m MODULE` in `processes` local processes."""
    return [
        sys.executable,
        "-m",
        "adanorm.runs.torchrun",
        "--standalone",
        f"--nproc-per-node={processes}",
    ]


def end_with_parent(number: int) -> Callable[[], object]:
    """Return a function whose caller Linux sends signal `number` when its parent ends.

    All that the function needs is loaded here, so that a child may call it between fork and exec.
    """
    import ctypes

    return partial(
        ctypes.CDLL(None).prctl,
        PARENT_DEATH_SIGNAL,
        number,
    )


@cache
def processor_fact(name: str) -> str | None:
    """Return a fact about this machine's processor from Linux, such as its `vendor_id`, or None."""
    lines = CPUINFO.read_text("utf-8").splitlines() if CPUINFO.exists() else []
    facts = (line.partition(":") for line in lines)
    return next((value.strip() for key, _, value in facts if key.strip() == name), None)


def products() -> str:
    """Return the faster library for products of float32 matrices on this CPU: `onednn` or `mkl`.

    MKL uses AVX-512 on Intel's processors alone. On AMD's Zen 5 (family 26) oneDNN is twice as
    fast; on Zen 4 the two are equal; on Intel MKL is 3 to 10 % faster. Off x86, PyTorch has no MKL.
    """
    vendor = processor_fact("vendor_id")
    is_zen_5 = vendor == "AuthenticAMD" and int(processor_fact("cpu family") or 0) >= 26
    return os.environ.get(PRODUCTS) or ("onednn" if vendor is None or is_zen_5 else "mkl")


def set_up_libraries() -> None:
    """Set what libraries read once, before any is imported; ValueError for an unknown choice."""
    for name, size in CACHES.items():
        os.environ.setdefault(name, size)
    arithmetic = os.environ.get(VARIABLE)
    if arithmetic == "portable":
        os.environ.update(HELD)
    elif arithmetic:
        raise ValueError(f"{VARIABLE}={arithmetic}: must be portable, or not set")
    if products() not in ("onednn", "mkl"):
        raise ValueError(f"{PRODUCTS}={products()}: must be onednn or mkl, or not set")
