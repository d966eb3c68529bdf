"""What this process is among those of its run, and how one of several is started and ended."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial

PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux's prctl


def is_first_process() -> bool:
    """Return whether this process is the first of its run's, which alone prints."""
    return os.environ.get("RANK", "0") == "0"


def torchrun(processes: int) -> list[str]:
    """Return the command by which so many processes of this machine run what follows it: `-m MODULE`."""
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]


def end_with_parent(number: int) -> Callable[[], object]:
    """Return a function; Linux sends the process that calls it this signal once its parent has ended.

    What the function needs is loaded before, so that a child may call it between fork and exec.
    """
    import ctypes

    return partial(ctypes.CDLL(None).prctl, PARENT_DEATH_SIGNAL, number)
