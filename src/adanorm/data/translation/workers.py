"""Work shared out to processes, its results in order, and how far it is."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from tqdm import tqdm

Say = Callable[[str], None]
Call = tuple[Callable[..., Any], tuple[Any, ...]]  # a function of a module, and its arguments
AHEAD = 2  # calls a process that are handed out before their turn: what bounds the memory
SECONDS = 30.0  # between two lines of progress in a log


def cores() -> int:
    """Return how many processes can compute at once here."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Workers:
    """Processes that are started when there is a second call to make, and ended with a block."""

    def __init__(self, count: int | None = None) -> None:
        self.count = count or cores()
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._pool is None:
            return
        self._pool.shutdown(wait=kind is None, cancel_futures=True)
        if kind is not None:
            for child in multiprocessing.active_children():
                child.terminate()

    def map(self, calls: Iterator[Call]) -> Iterator[Any]:
        """Yield what each call returns, in their order; few are asked for before their turn."""
        first = next(calls, None)
        if first is None:
            return
        second = next(calls, None) if self.count > 1 else None
        if second is None:
            yield first[0](*first[1])
            for function, arguments in calls:
                yield function(*arguments)
            return
        if self._pool is None:
            # Not forked: threads of torch and of Numba would be missing in the child.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.count, context, initializer=_start)
        try:
            yield from self._in_order(self._pool, first, second, calls)
        except BrokenProcessPool:
            raise OSError(
                "a process of the preparation was killed, perhaps for lack of memory; the next start goes on"
                " from the last finished shard"
            ) from None

    def _in_order(
        self, pool: ProcessPoolExecutor, first: Call, second: Call, calls: Iterator[Call]
    ) -> Iterator[Any]:
        waiting: deque[Future[Any]] = deque(pool.submit(f, *a) for f, a in (first, second))
        for function, arguments in calls:
            waiting.append(pool.submit(function, *arguments))
            if len(waiting) >= AHEAD * self.count:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _start() -> None:
    """Have a process ignore Ctrl-C, which its parent answers, and end when its parent has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None, "started by another"

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class Progress:
    """How far a step is, with the time left: a bar on a terminal, now and then a line in a log."""

    def __init__(self, step: str, total: int, say: Say) -> None:
        self._step, self._total, self._say = step, total, say
        self._started = self._said = time.monotonic()
        self._bar = tqdm(
            total=total, desc=step, unit=" pairs", unit_scale=True, ncols=80, leave=False, delay=1.0,
            disable=not sys.stderr.isatty(),
        )  # fmt: skip
        self._done = self._before = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._bar.close()

    def add(self, pairs: int, *, now: bool = True) -> None:
        """Count pairs that are done; those that an earlier start did say nothing of the time left."""
        self._done += pairs
        self._before += 0 if now else pairs
        self._bar.update(pairs)
        seconds = time.monotonic()
        if self._bar.disable and seconds - self._said >= SECONDS:
            self._said = seconds
            self._say(self.line(seconds - self._started))

    def line(self, seconds: float) -> str:
        """Return where the step stands after so many seconds."""
        left = seconds * max(0, self._total - self._done) / max(1, self._done - self._before)
        span = f"{left:.0f} s" if left < 90 else f"{left / 60:.0f} min"
        return f"{self._step}: {self._done:,} of {self._total:,} pairs, {span} left"
