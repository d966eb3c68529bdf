"""A study's jobs end with it, however it ends: they watch a lock that it holds while it lives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO, NoReturn

from filelock import FileLock, Timeout

PATIENCE = 5.0  # seconds that a process has to end before it is killed
SECONDS = 0.5  # between two looks at the lock


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold a study's lock for the duration of a block; a signal to stop ends the block as Ctrl-C does."""
    stopping = {number: signal.signal(number, _stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        with FileLock(folder / "study.lock"):
            yield
    finally:
        for number, before in stopping.items():
            signal.signal(number, before)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    for ignored in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)  # the jobs are being ended
    with suppress(OSError):  # a terminal that was closed
        print("stopped: the next start resumes the runs from their checkpoints", file=sys.stderr)
    raise SystemExit(128 + number)


def is_over(folder: Path) -> bool:
    """Return whether the study of a folder has ended: its lock is free."""
    try:
        with FileLock(folder / "study.lock", timeout=0):
            return True
    except Timeout:
        return False


@contextmanager
def process_group(command: Sequence[str], output: IO[str] | None) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process in a group of its own, and end whatever is left of the group after a block."""
    process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    try:
        yield process
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            deadline = time.monotonic() + PATIENCE
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
                while time.monotonic() < deadline:
                    process.poll()  # a zombie counts as one of the group
                    os.killpg(process.pid, 0)
                    time.sleep(0.05)
        process.wait()


def end_group_with(folder: Path) -> None:
    """End this process and its group as soon as the study of a folder is over."""

    def watch() -> None:
        while not is_over(folder):
            time.sleep(SECONDS)
        os.killpg(0, signal.SIGTERM)

    if os.getpgrp() == os.getpid():  # a group of its own
        threading.Thread(target=watch, daemon=True).start()


def wait_until_over(process: subprocess.Popen[bytes], folder: Path) -> int:
    """Return the exit code of a process, which is ended where the study of a folder is over."""
    while True:
        try:
            return process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            if is_over(folder):
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(PATIENCE)
                process.kill()
                return process.wait()
