"""Preparing a parallel corpus: words, cleaning, subwords, dictionaries, fairseq's binary files.

A prepared corpus is a folder that `fairseq-train` can read as it is (a data-bin), with the codes of
the encoding, the words and text to score against, and a report of what was dropped. It is prepared shard
by shard in as many processes as there are cores, in a folder `<name>.part` that keeps what is finished.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from adanorm.config.data_sections import SPLITS, ParallelConfig
from adanorm.config.digest import sha256
from adanorm.data.fetch import cache_of
from adanorm.data.translation.corpora import Splits, corpus_files, read_corpus
from adanorm.data.translation.steps import prepare
from adanorm.data.translation.tokenization import Say
from adanorm.files import naming, write_whole

VERSION = 3  # of this preparation: another one is another folder
CHECKSUMS = "checksums.json"  # of the other files of a prepared corpus, by name
WEEK = 7 * 24 * 3600  # seconds
PLACES = {"cache", "mirror", "mirrors", "path", *SPLITS, "batch_tokens"}


def cores() -> int:
    """Return how many processes can compute at once here."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def prepared_corpus(
    data: ParallelConfig, say: Say = print, *, processes: int | None = None
) -> tuple[Path, dict[str, str]]:
    """Return the folder of a prepared corpus, made now if need be, and its input files' checksums.

    The folder is found again by its inputs' content and the settings, and prepared again where a
    file of it is not what was written. An interrupted preparation goes on from what it had finished, in
    as many processes as there are cores. `say` gets a line for every kind of thing that was dropped.
    Raises ValueError where the corpus cannot be had or read.
    """
    files = corpus_files(data)
    checksums = _sha256(files)
    folder = prepared_folder(data, checksums)
    if folder.exists() and _broken_file(folder) is None:
        return folder, checksums  # without a lock: the folder may be one that cannot be written
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):  # one process prepares, the others wait here
        if folder.exists() and (broken := _broken_file(folder)) is not None:
            say(f"{folder / broken}: not what was written: the corpus is prepared again")
            shutil.rmtree(folder)
        if not folder.exists():
            _sweep(folder.parent)
            raw = read_corpus(data, files, checksums)
            _prepare(data, raw, folder, say, processes or cores())
    return folder, checksums


def prepared_folder(data: ParallelConfig, checksums: Mapping[str, str]) -> Path:
    """Return the folder of a corpus prepared from files of these checksums."""
    settings = data.model_dump(mode="json", exclude=PLACES)
    identity = json.dumps([VERSION, settings, list(checksums.values())], sort_keys=True)
    name = f"{'-'.join(data.languages)}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"
    return cache_of(data) / "prepared" / name


def _sweep(folder: Path) -> None:
    """Remove what interrupted preparations left a week ago or longer, where no process is at it."""
    for part in folder.glob("*.part"):
        with suppress(OSError, Timeout), FileLock(part.with_suffix(".lock"), timeout=0):
            if time.time() - part.stat().st_mtime > WEEK:
                shutil.rmtree(part)


def _prepare(data: ParallelConfig, raw: Splits, folder: Path, say: Say, processes: int) -> None:
    """Prepare a corpus in `<folder>.part`, which becomes the folder when it is finished."""
    part = folder.with_suffix(".part")
    if part.exists():
        say(f"{part}: goes on from what an interrupted preparation had finished")
    (part / "out").mkdir(parents=True, exist_ok=True)
    try:
        with naming(part):
            out = prepare(raw, data, part, say, processes)
    except (FileNotFoundError, ValueError):
        shutil.rmtree(part, ignore_errors=True)  # a second start would find the same fault
        raise
    write_whole(out / CHECKSUMS, json.dumps(_checksums(out), indent=1).encode())
    out.rename(folder)
    shutil.rmtree(part, ignore_errors=True)


def _checksums(folder: Path) -> dict[str, str]:
    return _sha256({path.name: path for path in sorted(folder.iterdir()) if path.name != CHECKSUMS})


def _sha256(files: dict[str, Path]) -> dict[str, str]:
    """Return the checksums of several files; a gigabyte takes a second of a core."""
    with ThreadPoolExecutor(cores()) as threads:  # which hash at once: hashlib lets other threads run
        return dict(zip(files, threads.map(sha256, files.values()), strict=True))


def _broken_file(folder: Path) -> str | None:
    """Return the name of a file of a prepared corpus that is not what was written, or None."""
    try:
        written = json.loads((folder / CHECKSUMS).read_bytes())
        there = _checksums(folder)
        return next((name for name in {**written, **there} if written.get(name) != there.get(name)), None)
    except (OSError, ValueError, TypeError, AttributeError):
        return CHECKSUMS
