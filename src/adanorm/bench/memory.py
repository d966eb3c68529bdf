"""The peak memory of this process."""

from __future__ import annotations

from pathlib import Path


def peak_mb() -> float:
    """Return the largest resident size of this process in MB, from Linux's VmHWM.

    Not getrusage's ru_maxrss: a spawned process starts with its parent's.
    """
    status = Path("/proc/self/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 1024
