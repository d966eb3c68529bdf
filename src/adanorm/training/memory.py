"""The memory that a process has had at its peak."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import torch

STATUS = Path("/proc/self/status")


def peak_memory(device: torch.device) -> int:
    """Return the largest memory of this process so far on a device, in bytes: a GPU's own, or resident.

    From Linux's VmHWM where there is one: a spawned process starts with its parent's ru_maxrss.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if STATUS.exists():
        lines = (line.split() for line in STATUS.read_text("ascii").splitlines())
        return next(1024 * int(line[1]) for line in lines if line[:1] == ["VmHWM:"])
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
