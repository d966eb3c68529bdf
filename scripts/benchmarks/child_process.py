"""Work in a process of its own, and the peak memory of a process."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch

T = TypeVar("T")


def fresh_process(
    function: Callable[..., T], *arguments: Any, environment: Mapping[str, str | None] | None = None
) -> T:
    """Return function(*arguments), computed by a process of its own with as many threads as this one.

    Variables of `environment` are set for it, or unset where None: the C library reads its own at start.
    """
    with (
        _changed_environment(environment or {}),
        ProcessPoolExecutor(
            1, multiprocessing.get_context("spawn"), torch.set_num_threads, (torch.get_num_threads(),)
        ) as process,
    ):
        return process.submit(function, *arguments).result()


@contextmanager
def _changed_environment(changes: Mapping[str, str | None]) -> Iterator[None]:
    before = dict(os.environ)
    try:
        for name, value in changes.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


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
