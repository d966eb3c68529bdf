"""The folder of a run or an analysis: who may write it, and what lies in it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import yaml
from filelock import FileLock, Timeout

from adanorm.config.paths import PROJECT
from adanorm.files import as_json, naming, sweep, write_files, write_whole
from adanorm.records import reader
from adanorm.records.check import COUNTS, OUTPUTS, PATCH, digests, outputs_digest, packed
from adanorm.records.environment import changes
from adanorm.records.result import Ended

OF_A_STUDY = "ADANORM_OF_A_STUDY"  # in the environment of a study's runs
HELD_CODE = 75  # the exit code of such a run that another process is writing


class HeldError(ValueError):
    """Another process is writing the record of a folder."""


class RunFolder:
    """The files of one run, or of an analysis with other `rows`; result.json says that it has ended."""

    def __init__(self, path: Path, *, rows: str = "metrics.jsonl") -> None:
        self.path, self.rows = path, path / rows
        self.test_rows = path / "test_metrics.jsonl"  # the test scores of evaluations, which choose nothing
        self.checkpoint = path / "checkpoint.pt"  # the training state of an unfinished run
        self.weights = path / "weights.safetensors"  # the best weights of a finished run
        self.is_complete = False  # of a recording: there is nothing to do
        self.result: Ended | None = None  # of a recording: what ends it, once there is one

    @contextmanager
    def recording(
        self,
        identity: dict[str, Any],
        environment: dict[str, Any],
        code: Mapping[str, bytes] = MappingProxyType({}),
    ) -> Iterator[Self]:
        """Lock the folder during a block; write what the record is of first, and its result at the end.

        `code` are the source files, by relative path, of what comes from another package.
        The block sets `result`. Without one, as after an interruption, the record stays
        unfinished: the next start continues it. Nothing is written where it is complete, as another
        process may have made it just before. Raises HeldError where another process is writing it, and
        ValueError where a later version of the suite has.
        """
        with self.locked():
            self.is_complete, self.result = reader.is_complete(self.path), None
            if self.is_complete:
                yield self
                return
            schema, path = (reader.record(self.path).values or {}).get("schema"), self.path / "result.json"
            if isinstance(schema, int | float) and schema > reader.SCHEMA:
                later = "from a later version of the suite: left as it is"
                raise ValueError(f"{path}: of schema {schema}, {later}")
            write_whole(self.path / "config.yaml", yaml.safe_dump(identity, sort_keys=False).encode())
            write_whole(self.path / "environment.json", as_json(environment))
            (self.path / PATCH).unlink(missing_ok=True)  # of an earlier start
            if environment.get("dirty"):
                write_whole(self.path / PATCH, changes())
            copies = self.path / "code"
            if copies.is_symlink():
                copies.unlink()
            write_files(copies, code)
            try:
                yield self
            finally:
                if self.result is not None:
                    write_whole(path, self.result.sealed(digests(self.path)))
                    if self.result.is_complete:
                        for leftover in (*self.path.glob("checkpoint*.pt"), *self.path.glob("kept-*.pt")):
                            leftover.unlink(missing_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Create the folder if need be and keep other processes out during a block; raises HeldError."""
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            # A moment's patience: `is_locked` takes the lock for as long as it looks.
            with FileLock(self.path / "run.lock", timeout=1):
                sweep(self.path)
                yield
        except Timeout:
            raise HeldError(f"{shown(self.path)} is being written by another process") from None

    def write_rows(self, rows: Sequence[Mapping[str, Any]], *, to: Path | None = None) -> None:
        """Write all rows so far, of metrics unless `to` says more: a resumed run goes on after those."""
        write_whole(to or self.rows, b"".join(map(_line, rows)))

    def add_row(self, row: Mapping[str, Any], *, to: Path | None = None) -> None:
        """Append a row, of metrics unless `to` says more; a full disk leaves no half of it."""
        left, path = _line(row), to or self.rows
        with naming(path), path.open("ab", buffering=0) as file:
            before = file.tell()
            try:
                while left:
                    left = left[file.write(left) :]
            except OSError:
                file.truncate(before)
                raise

    def write_outputs(
        self, outputs: list[str], counted: Mapping[str, Sequence[Sequence[float]]] = MappingProxyType({})
    ) -> None:
        """Write the test set's outputs, one line per example, and what is counted of each by metric."""
        text = "".join(f"{output}\n" for output in outputs).encode()
        write_whole(self.path / OUTPUTS, packed(text))
        if counted:
            from adanorm.metrics import by_example

            values = {"outputs": outputs_digest(text), "counts": by_example.as_text(counted)}
            write_whole(self.path / COUNTS, _line(values))


def _line(row: Mapping[str, Any]) -> bytes:
    return (json.dumps(row, allow_nan=False) + "\n").encode()


def is_locked(path: Path) -> bool:
    """Return whether a process is writing the run in a folder; the folder need not exist."""
    lock = path / "run.lock"
    if not lock.exists():
        return False
    try:
        with FileLock(lock, timeout=0):
            return False
    except Timeout:
        return True


def where(folder: Path) -> str:
    """Return where a person finds a record: its folder or, of a kept one, the file of its line."""
    line = reader.record(folder).line
    return f"{shown(line.file)}, {folder.name}" if line else shown(folder)


def shown(path: Path) -> str:
    """Return a path as a person at the project's root would write it."""
    return str(path.relative_to(PROJECT)) if path.is_relative_to(PROJECT) else str(path)
