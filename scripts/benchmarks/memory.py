"""The peak memory of this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any


def peak_mb() -> float:
    """Return the largest resident size of this process in MB, from Linux's VmHWM.

    Not getrusage's ru_maxrss: a spawned process starts with its parent's.
    """
    status = Path("/proc/self/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 1024


def added_peak_mb(work: Callable[[], Any]) -> float:
    """Return by how much work, done once before, raises the resident size at its peak, in MB.

    Freed memory must go back to the system at once for that: MALLOC_MMAP_THRESHOLD_=65536.
    """
    work()
    Path("/proc/self/clear_refs").write_text("5")  # the peak is now what is resident
    before = peak_mb()
    work()
    return peak_mb() - before
