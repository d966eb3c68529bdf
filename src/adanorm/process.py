"""What this process is among those of its run, how one is started and ended, and how one computes."""

import os
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux's prctl
# ADANORM_ARITHMETIC=portable holds `adanorm`, and every process that it starts, to instructions that x86
# processors of the last ten years share. It is for comparing two processors: results differ in their last
# digits from those without it, and a run takes longer.
VARIABLE = "ADANORM_ARITHMETIC"
PRODUCTS = "ADANORM_PRODUCTS"  # chooses the library of products against the rule below
HELD = {
    PRODUCTS: "onednn",
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_CBWR": "COMPATIBLE",  # the one branch that MKL has for others than Intel's
    "NUMBA_CPU_NAME": "haswell",
    "NUMBA_CPU_FEATURES": "",  # those of that name, not this processor's
}
# How many compiled products oneDNN keeps, and torch beside it; each shape of a batch is one. By their 1,024
# 155 updates of translation's mini model take 1,170 MB where these take 770, in the same time.
CACHES = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64", "LRU_CACHE_CAPACITY": "64"}


def is_first_process() -> bool:
    """Return whether this process is the first of its run's, which alone prints."""
    return os.environ.get("RANK", "0") == "0"


def torchrun(processes: int) -> list[str]:
    """Return the command by which so many processes of this machine run what follows it: `-m MODULE`."""
    return [sys.executable, "-m", "adanorm.runs.torchrun", "--standalone", f"--nproc-per-node={processes}"]


def end_with_parent(number: int) -> Callable[[], object]:
    """Return a function; Linux sends the process that calls it this signal once its parent has ended.

    What the function needs is loaded before, so that a child may call it between fork and exec.
    """
    import ctypes

    return partial(ctypes.CDLL(None).prctl, PARENT_DEATH_SIGNAL, number)


@cache
def processor_fact(name: str) -> str | None:
    """Return what Linux says of this machine's processor, such as its `vendor_id`; None where it does not."""
    lines = CPUINFO.read_text("utf-8").splitlines() if CPUINFO.exists() else []
    facts = (line.partition(":") for line in lines)
    return next((value.strip() for key, _, value in facts if key.strip() == name), None)


def products() -> str:
    """Return which library multiplies float32 matrices on the CPU, the faster one: `onednn` or `mkl`.

    MKL uses AVX-512 on Intel's processors alone. On AMD's Zen 5 (family 26) oneDNN is twice as fast; on
    Zen 4 the two are even, and on Intel MKL is ahead by 3 to 10 %. Elsewhere PyTorch has no MKL.
    """
    vendor = processor_fact("vendor_id")
    is_zen_5 = vendor == "AuthenticAMD" and int(processor_fact("cpu family") or 0) >= 26
    return os.environ.get(PRODUCTS) or ("onednn" if vendor is None or is_zen_5 else "mkl")


def set_up_libraries() -> None:
    """Set what libraries read once, before any is imported: caches and, if asked for, arithmetic."""
    for name, size in CACHES.items():
        os.environ.setdefault(name, size)
    chosen = os.environ.get(VARIABLE)
    if chosen == "portable":
        os.environ.update(HELD)
    elif chosen:
        raise ValueError(f"{VARIABLE}={chosen}: must be portable, or not set")
    if products() not in ("onednn", "mkl"):
        raise ValueError(f"{PRODUCTS}={products()}: must be onednn or mkl, or not set")
