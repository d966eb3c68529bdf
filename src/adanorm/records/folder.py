"""The folder of a run or an analysis: what it has while it runs, and its line once it has ended."""

import fcntl
import json
import platform
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

import yaml
from filelock import FileLock, Timeout

from adanorm.config.paths import PROJECT
from adanorm.files import Fields, Values, as_json, create_folder, naming, sweep, write_whole
from adanorm.records import reader
from adanorm.records.environment import LARGEST_PATCH, changes
from adanorm.records.integrity import (
    COUNTS,
    FILES,
    OUTPUTS,
    PATCH,
    TEST_ROWS,
    check_rows,
    packed,
    text_digest,
)
from adanorm.records.lines import RECORD, line_of
from adanorm.records.result import Ended

OF_A_STUDY = "ADANORM_OF_A_STUDY"  # a variable in the environment of a study's runs
HELD_CODE = 75  # exit code of a study's run that another process is writing


class HeldError(ValueError):
    """Another process is writing the record of a folder."""


class RunFolder:
    """The folder of a run, or of an analysis, whose `rows` have another name.

    While it runs it has a lock, a checkpoint and the rows so far. At its end these become its
    weights and its line, `record.jsonl`, which is written last: a folder that has it has ended.
    """

    def __init__(self, path: Path, *, rows: str = "metrics.jsonl") -> None:
        self.path = path
        self.rows = path / rows
        self.test_rows = path / TEST_ROWS
        self.checkpoint = path / "checkpoint.pt"  # the training state of an unfinished run
        self.weights = path / "weights.safetensors"  # the best weights of a finished run
        self.host = path / "run.host"  # the name of the machine that writes, or was killed
        self.is_complete = False  # set by `recording`: there is nothing to do
        self.result: Ended | None = None  # set by the block of `recording`: its outcome
        self._contents: dict[str, bytes] = {}  # of the record's files, by name

    @contextmanager
    def recording(
        self, identity: Values, environment: Values, code: Mapping[str, bytes]
    ) -> Iterator[Self]:
        """Lock the folder during a block, and write the record's line after it.

        `code` holds source files from outside the suite, by relative path. The block sets `result`.
        If it does not, as after an interruption, there is no line and the next start continues the
        run. Nothing is written if the record is complete: another process may have just finished
        it. Raises HeldError if another process is writing it, and ValueError if a later version of
        the suite wrote it.
        """
        with self.locked():
            self.is_complete = reader.is_complete(self.path)
            self.result = None
            if self.is_complete:
                self._clear()
                yield self
                return
            self._check_schema()
            patch = changes() if environment.get("dirty") else b""
            if len(patch) > LARGEST_PATCH:
                kept = {"sha256": text_digest(patch), "bytes": len(patch)}
                environment = {**environment, "changes": kept}
                patch = b""
            self._contents = {
                "config.yaml": yaml.safe_dump(identity, sort_keys=False).encode(),
                "environment.json": as_json(environment),
            }
            if patch:
                self._contents[PATCH] = patch
            for name in (RECORD, "result.json"):  # of an earlier start that failed
                (self.path / name).unlink(missing_ok=True)
            try:
                yield self
            finally:
                if self.result is not None:
                    self._write_line(self.result, code)
                    if reader.is_complete(self.path):
                        self._clear()

    def _check_schema(self) -> None:
        """Raise ValueError if the folder has a record of a later version of the suite."""
        record = reader.record(self.path)
        schema = (record.values or {}).get("schema")
        if isinstance(schema, int | float) and schema > reader.SCHEMA:
            later = "from a later version of the suite: left as it is"
            raise ValueError(f"{path_text(self.path)}: of schema {schema}, {later}")

    def _write_line(self, result: Ended, code: Mapping[str, bytes]) -> None:
        """Write the line with the texts of all files of the record, and the SHA-256 of each."""
        for rows in (self.test_rows, self.rows):
            if rows.is_file():
                self._contents[rows.name] = rows.read_bytes()
        contents = {name: self._contents[name] for name in FILES if name in self._contents}
        digests = {name: text_digest(content) for name, content in contents.items()}
        contents["result.json"] = result.sealed(digests)
        contents |= {f"code/{name}": content for name, content in sorted(code.items())}
        file = self.path / RECORD
        line = line_of(self.path.name, contents, file)
        write_whole(file, line.as_text())

    def _clear(self) -> None:
        """Remove what only a running run needs, from a folder that has its line."""
        if not (self.path / RECORD).exists():
            return
        leftovers = [*self.path.glob("checkpoint*.pt"), *self.path.glob("kept-*.pt")]
        leftovers += [self.path / name for name in FILES]  # older versions left all of them
        for leftover in leftovers:
            leftover.unlink(missing_ok=True)
        copies = self.path / "code"
        if copies.is_symlink():
            copies.unlink()
        else:
            shutil.rmtree(copies, ignore_errors=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Create the folder if need be and lock it during a block.

        Raises HeldError if it is locked.
        """
        create_folder(self.path)
        try:
            # Wait a moment: `is_locked` in another process takes the lock while it looks.
            with FileLock(self.path / "run.lock", timeout=1):
                sweep(self.path)
                write_whole(self.host, platform.node().encode())
                try:
                    yield
                finally:
                    self.host.unlink(missing_ok=True)
        except Timeout:
            message = f"{path_text(self.path)} is being written by another process"
            raise HeldError(message) from None

    def write_rows(self, rows: Sequence[Fields], *, to: Path | None = None) -> None:
        """Write all rows so far to `rows`, or to the file `to`; a resumed run appends to them."""
        path = to or self.rows
        check_rows(path.name, rows)
        write_whole(path, b"".join(map(_line, rows)))

    def add_row(self, row: Fields, *, to: Path | None = None) -> None:
        """Append a row to `rows`, or to the file `to`; a full disk leaves no half row."""
        rest = _line(row)
        path = to or self.rows
        check_rows(path.name, [row])
        with naming(path), path.open("ab", buffering=0) as file:
            before = file.tell()
            try:
                while rest:
                    rest = rest[file.write(rest) :]
            except OSError:
                file.truncate(before)
                raise

    def set_outputs(
        self, outputs: Sequence[str], counts: Mapping[str, Sequence[Sequence[float]]]
    ) -> None:
        """Set the test set's outputs, one per example, and the counts of each example by metric."""
        text = "".join(f"{output}\n" for output in outputs).encode()
        self._contents[OUTPUTS] = packed(text)
        if counts:
            from adanorm.records import by_example

            values = {"outputs": text_digest(text), "counts": by_example.as_text(counts)}
            self._contents[COUNTS] = _line(values)


def _line(row: Fields) -> bytes:
    return (json.dumps(row, allow_nan=False) + "\n").encode()


def is_locked(path: Path) -> bool:
    """Return whether a process is writing the record in a folder; the folder need not exist."""
    # A shared lock: it needs no right to write, and two that look do not see each other.
    with suppress(FileNotFoundError, NotADirectoryError), (path / "run.lock").open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def is_held_elsewhere(path: Path) -> bool:
    """Return whether the machine that writes the record in a folder, or was killed, is another."""
    host = RunFolder(path).host
    return host.is_file() and host.read_text("utf-8", "replace") != platform.node()


def location(folder: Path) -> str:
    """Return where a person finds a record: its folder, or the file that keeps it and its name."""
    record = reader.record(folder)
    if record.is_kept and record.line is not None:
        return f"{path_text(record.line.file)}, {folder.name}"
    return path_text(folder)


def path_text(path: Path) -> str:
    """Return a path as text, relative to the project's root if it lies there."""
    return str(path.relative_to(PROJECT)) if path.is_relative_to(PROJECT) else str(path)
