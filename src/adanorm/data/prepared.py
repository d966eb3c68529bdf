"""Prepared data: folders that are made once, appear whole, and are verified at each use."""

import json
import shutil
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from adanorm.config.values import sha256
from adanorm.files import create_folder, naming, write_whole

CHECKSUMS = "checksums.json"  # has the SHA-256 of every other file of a prepared folder, by name
WEEK = 7 * 24 * 3600  # seconds
PATIENCE = 5  # seconds, after which a process says that it waits


def prepared(folder: Path, make: Callable[[Path], None]) -> Path:
    """Return the folder, which may be made now: `make(part)` writes its files into `part/out`.

    A folder with a changed file is made again. `part` stays after an interruption, so `make` may go
    on from what it finds there. Raises what `make` raises, and OSError where nothing can be
    written.
    """
    if folder.exists() and _broken_file(folder) is None:
        # Left if one was killed at the end.
        shutil.rmtree(folder.with_suffix(".part"), ignore_errors=True)
        return folder  # without a lock: the folder may be read-only
    create_folder(folder.parent)
    with _locked(folder):
        broken = _broken_file(folder) if folder.exists() else None
        if broken is not None:
            print(f"{folder / broken}: has been changed: the corpus is prepared again")
            shutil.rmtree(folder)
        if not folder.exists():
            _remove_old_parts(folder.parent)
            _make(folder, make)
    return folder


def _locked(folder: Path) -> AbstractContextManager[object]:
    """Return the lock of a folder, which is released at the end of a block.

    One process has it, and prepares the folder; the others wait here, and say so.
    """
    lock = FileLock(folder.with_suffix(".lock"))
    try:
        return lock.acquire(timeout=PATIENCE)
    except Timeout:
        print(f"{folder}: waiting for another process that prepares it", flush=True)
        return lock.acquire()


def _make(folder: Path, make: Callable[[Path], None]) -> None:
    part = folder.with_suffix(".part")
    if part.exists():
        print(f"{part}: goes on from what an interrupted preparation had finished")
    create_folder(part / "out")
    try:
        with naming(part):
            make(part)
    except (FileNotFoundError, ValueError):
        shutil.rmtree(part, ignore_errors=True)  # another attempt would fail in the same way
        raise
    write_whole(part / "out" / CHECKSUMS, json.dumps(_checksums(part / "out"), indent=1).encode())
    (part / "out").rename(folder)
    shutil.rmtree(part, ignore_errors=True)


def _remove_old_parts(folder: Path) -> None:
    """Remove what interrupted preparations left over a week ago, unless a process works on it."""
    for part in folder.glob("*.part"):
        with suppress(OSError, Timeout), FileLock(part.with_suffix(".lock"), timeout=0):
            if time.time() - part.stat().st_mtime > WEEK:
                shutil.rmtree(part)


def _checksums(folder: Path) -> dict[str, str]:
    files = {path.name: path for path in sorted(folder.iterdir()) if path.name != CHECKSUMS}
    return checksums_of(files)


def checksums_of(files: Mapping[str, Path]) -> dict[str, str]:
    """Return the SHA-256 of files by name; a gigabyte takes one core a second."""
    with ThreadPoolExecutor() as threads:  # hashlib releases the interpreter lock
        checksums = threads.map(sha256, files.values())
        return dict(
            zip(
                files,
                checksums,
                strict=True,
            )
        )


def _broken_file(folder: Path) -> str | None:
    """Return the name of a file of a prepared folder that was changed, removed or added, or None."""
    try:
        expected = json.loads((folder / CHECKSUMS).read_bytes())
        actual = _checksums(folder)
        for name in {**expected, **actual}:
            if expected.get(name) != actual.get(name):
                return name
    except (OSError, ValueError, TypeError, AttributeError):
        return CHECKSUMS
    return None
