"""The store: what is done and kept, one line per record in <folder>.jsonl, with its files' texts verbatim.

The test set's outputs stand beside, in <folder>.outputs.jsonl, as the text that predictions.txt.gz packs.
Both files only ever grow, so that git merges them line by line.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import warnings
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from filelock import FileLock

from adanorm.files import CHECKSUM, checksum_of, with_checksum, write_whole
from adanorm.records.check import FILES, OUTPUTS

SUFFIX, OUTPUTS_SUFFIX = ".jsonl", ".outputs.jsonl"


class Line:
    """One record of the store."""

    def __init__(self, file: Path, values: Mapping[str, Any]) -> None:
        self.file, self.values = file, values
        self.run: str = values["run"]
        self.files: Mapping[str, str] = values["files"]

    @cached_property
    def is_whole(self) -> bool:
        """Whether the line is what was written."""
        values = {key: value for key, value in self.values.items() if key != CHECKSUM}
        return bool(self.values.get(CHECKSUM) == checksum_of(values))

    def has(self, name: str) -> bool:
        """Return whether the record has a file of a name."""
        return self.values.get("outputs") is not None if name == OUTPUTS else name in self.files

    def names(self) -> list[str]:
        """Return the names of the record's files."""
        return [*self.files, *([OUTPUTS] if self.has(OUTPUTS) else [])]

    def content(self, name: str) -> bytes | None:
        """Return the bytes of a file of the record; None where it has none of that name."""
        if not self.has(name):
            return None
        return _packed(self.outputs()) if name == OUTPUTS else _bytes(self.files[name])

    def outputs(self) -> str:
        """Return the text of the test set's outputs; raises OSError where it is not on record."""
        file = outputs_file(self.file)
        state = (stat := file.stat()).st_mtime_ns, stat.st_size
        for text in _outputs(file, state).get(self.run, ()):
            if _digest(text) == self.values.get("outputs"):
                return text
        raise FileNotFoundError(f"{file.name} has none of {self.run}")


def file_of(parent: Path) -> Path:
    """Return the file that keeps the records of a folder."""
    return parent.with_name(parent.name + SUFFIX)


def outputs_file(file: Path) -> Path:
    """Return the file that keeps the outputs of a file's records."""
    return file.with_name(file.name.removesuffix(SUFFIX) + OUTPUTS_SUFFIX)


def lines(file: Path) -> dict[str, Line]:
    """Return the lines of a file of the store by the run's name; a line that is no record is warned of."""
    known: dict[str, Line] = {}
    for number, text in enumerate(file.read_bytes().split(b"\n")[:-1], 1):
        try:
            line = Line(file, json.loads(_text(text)))
        except (ValueError, RecursionError, KeyError, TypeError):
            warnings.warn(f"{file}, line {number} is not counted: it is no record", stacklevel=1)
            continue
        if line.run not in known or not known[line.run].is_whole:  # two branches may have kept one run
            known[line.run] = line
    return known


@lru_cache(maxsize=16)
def _outputs(file: Path, state: object) -> dict[str, list[str]]:
    """Return the outputs in a file by the run's name: more than one where two branches have kept it."""
    known: dict[str, list[str]] = {}
    for text in file.read_bytes().split(b"\n")[:-1]:
        values = json.loads(_text(text))
        known.setdefault(values["run"], []).append(values["outputs"])
    return known


def parents(root: Path) -> Iterator[Path]:
    """Yield the folders under a root whose records the store has."""
    for file in root.rglob(f"*{SUFFIX}"):
        if not file.name.endswith(OUTPUTS_SUFFIX) and file.name not in FILES:
            yield file.with_name(file.name.removesuffix(SUFFIX))


def as_line(run: str, contents: Mapping[str, bytes]) -> tuple[bytes, bytes]:
    """Return a record's line and the line of its outputs, empty without any, from its files' bytes.

    Raises ValueError where the outputs are packed as this machine would not pack them again.
    """
    files = {name: _text(content) for name, content in contents.items() if name != OUTPUTS}
    values: dict[str, Any] = {"run": run, "files": files, "outputs": None}
    beside = b""
    if OUTPUTS in contents:
        text = _text(gzip.decompress(contents[OUTPUTS]))
        if _packed(text) != contents[OUTPUTS]:
            raise ValueError(f"{OUTPUTS} is not packed as Python's gzip does here")
        values["outputs"] = _digest(text)
        beside = _json({"run": run, "outputs": text})
    return _json(with_checksum(values)), beside


def append(file: Path, run: str, contents: Mapping[str, bytes]) -> bool:
    """Add a record to a file of the store and return whether it was not there yet.

    Raises ValueError where the file has another record of that name.
    """
    line, beside = as_line(run, contents)
    file.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(file.with_name(f"{file.name}.lock")):
        known = lines(file).get(run) if file.exists() else None
        if known is not None and known.is_whole:
            if known.values != json.loads(_text(line)):
                raise ValueError(f"{file.name} has another record of {run}")
            return False
        # The outputs come first: a record counts from its own line on.
        for target, added in ((outputs_file(file), beside), (file, line)):
            if added:
                write_whole(target, (target.read_bytes() if target.exists() else b"") + added)
    return True


def _json(values: Mapping[str, Any]) -> bytes:
    return _bytes(json.dumps(values, ensure_ascii=False) + "\n")


# Bytes that are no UTF-8, as in a patch of such a file, come back as they were.
def _text(content: bytes) -> str:
    return content.decode(errors="surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _packed(text: str) -> bytes:
    return gzip.compress(_bytes(text), mtime=0)


def _digest(text: str) -> str:
    return hashlib.sha256(_bytes(text)).hexdigest()
