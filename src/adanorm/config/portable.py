"""Portable arithmetic: instructions held to those that x86 processors of the last ten years share.

The environment variable ADANORM_ARITHMETIC=portable has `adanorm`, and every process that it starts, compute
so. It is for comparing two processors: results differ in their last digits from those without it, and a run
takes longer.
"""

from __future__ import annotations

import os

VARIABLE = "ADANORM_ARITHMETIC"
HELD = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_CBWR": "COMPATIBLE",  # the one branch that MKL has for others than Intel's
    "NUMBA_CPU_NAME": "haswell",
    "NUMBA_CPU_FEATURES": "",  # those of that name, not this processor's
}


def hold_arithmetic() -> None:
    """Set what holds the libraries, if it is asked for, which must be before any of them is imported."""
    chosen = os.environ.get(VARIABLE)
    if chosen == "portable":
        os.environ.update(HELD)
    elif chosen:
        raise ValueError(f"{VARIABLE}={chosen}: must be portable, or not set")
