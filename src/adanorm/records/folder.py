"""The folder of a run or an analysis: which files lie in it, and which process may write them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import yaml
from filelock import FileLock, Timeout

from adanorm.config.paths import PROJECT
from adanorm.files import as_json, naming, sweep, write_files, write_whole
from adanorm.records import reader
from adanorm.records.check import COUNTS, OUTPUTS, PATCH, digests, outputs_digest, packed
from adanorm.records.environment import changes
from adanorm.records.result import Ended

OF_A_STUDY = "ADANORM_OF_A_STUDY"  # a variable in the environment of a study's runs
HELD_CODE = 75  # exit code of a study's run that another process is writing


class HeldError(ValueError):
    """Another process is writing the record of a folder."""


class RunFolder:
    """The files of a run, or of an analysis, whose `rows` have another name; result.json is written last."""

    def __init__(self, path: Path, *, rows: str = "metrics.jsonl") -> None:
        self.path, self.rows = path, path / rows
        self.test_rows = (
            path / "test_metrics.jsonl"
        )  # test scores at each evaluation; they choose nothing
        self.checkpoint = path / "checkpoint.pt"  # the training state of an unfinished run
        self.weights = path / "weights.safetensors"  # the best weights of a finished run
        self.is_complete = False  # set by `recording`: there is nothing to do
        self.result: Ended | None = None  # set by the block of `recording`: its outcome

    @contextmanager
    def recording(
        self, identity: dict[str, Any], environment: dict[str, Any], code: Mapping[str, bytes]
    ) -> Iterator[Self]:
        """Lock the folder during a block; write settings and environment before it, the result after it.

        `code` holds source files from outside the suite, by relative path. The block sets `result`.
        If it does not, as after an interruption, the record stays unfinished and the next start
        continues it. Nothing is written if the record is complete: another process may have just
        finished it. Raises HeldError if another process is writing it, and ValueError if a later
        version of the suite wrote it.
        """
        with self.locked():
            self.is_complete, self.result = reader.is_complete(self.path), None
            if self.is_complete:
                yield self
                return
            schema, path = (
                (reader.record(self.path).values or {}).get("schema"),
                self.path / "result.json",
            )
            if isinstance(schema, int | float) and schema > reader.SCHEMA:
                later = "from a later version of the suite: left as it is"
                raise ValueError(f"{path}: of schema {schema}, {later}")
            write_whole(
                self.path / "config.yaml", yaml.safe_dump(identity, sort_keys=False).encode()
            )
            write_whole(self.path / "environment.json", as_json(environment))
            (self.path / PATCH).unlink(missing_ok=True)  # left by an earlier start
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
                        for leftover in (
                            *self.path.glob("checkpoint*.pt"),
                            *self.path.glob("kept-*.pt"),
                        ):
                            leftover.unlink(missing_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Create the folder if need be and lock it during a block; raises HeldError if it is locked."""
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            # Wait a moment: `is_locked` in another process takes the lock while it looks.
            with FileLock(self.path / "run.lock", timeout=1):
                sweep(self.path)
                yield
        except Timeout:
            raise HeldError(f"{path_text(self.path)} is being written by another process") from None

    def write_rows(self, rows: Sequence[Mapping[str, Any]], *, to: Path | None = None) -> None:
        """Write all rows so far to `rows`, or to the file `to`; a resumed run appends to them."""
        write_whole(to or self.rows, b"".join(map(_line, rows)))

    def add_row(self, row: Mapping[str, Any], *, to: Path | None = None) -> None:
        """Append a row to `rows`, or to the file `to`; a full disk leaves no half row."""
        rest, path = _line(row), to or self.rows
        with naming(path), path.open("ab", buffering=0) as file:
            before = file.tell()
            try:
                while rest:
                    rest = rest[file.write(rest) :]
            except OSError:
                file.truncate(before)
                raise

    def write_outputs(
        self, outputs: list[str], counts: Mapping[str, Sequence[Sequence[float]]]
    ) -> None:
        """Write the test set's outputs, one line per example, and the counts of each example by metric."""
        text = "".join(f"{output}\n" for output in outputs).encode()
        write_whole(self.path / OUTPUTS, packed(text))
        if counts:
            from adanorm.metrics import by_example

            values = {"outputs": outputs_digest(text), "counts": by_example.as_text(counts)}
            write_whole(self.path / COUNTS, _line(values))


def _line(row: Mapping[str, Any]) -> bytes:
    return (json.dumps(row, allow_nan=False) + "\n").encode()


def is_locked(path: Path) -> bool:
    """Return whether a process is writing the record in a folder; the folder need not exist."""
    lock = path / "run.lock"
    if not lock.exists():
        return False
    try:
        with FileLock(lock, timeout=0):
            return False
    except Timeout:
        return True


def location(folder: Path) -> str:
    """Return where a person finds a record: its folder or, if it is kept, the store's file and its name."""
    line = reader.record(folder).line
    return f"{path_text(line.file)}, {folder.name}" if line else path_text(folder)


def path_text(path: Path) -> str:
    """Return a path as text, relative to the project's root if it lies there."""
    return str(path.relative_to(PROJECT)) if path.is_relative_to(PROJECT) else str(path)
