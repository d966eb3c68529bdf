"""The store: one line per kept record in <folder>.jsonl, with the texts of its files verbatim.

Two files lie beside it: <folder>.outputs.jsonl has the test set's outputs, as the text of
predictions.txt.gz; <folder>.counts.jsonl has the counts of each test example. The three only grow,
so git merges them by line.
"""

import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock

from adanorm.files import CHECKSUM, checksum_of, with_checksum, write_whole
from adanorm.records.check import COUNTS, FILES, OUTPUTS, outputs_digest, packed, unpacked

Value = TypeVar("Value")
SUFFIX = ".jsonl"
# Files of a record that have a line of their own, by the <key> of <folder>.<key>.jsonl.
BESIDE = {OUTPUTS: "outputs", COUNTS: "counts"}


class Line:
    """One record of the store. A line that is in no file yet has `texts`: those that would lie beside it."""

    def __init__(
        self, file: Path, values: Mapping[str, Any], texts: Mapping[str, str] | None = None
    ) -> None:
        self.file, self.values, self.texts = file, values, texts
        self.run: str = values["run"]
        self.files: Mapping[str, str] = values["files"]
        if not all(isinstance(text, str) for text in (self.run, *self.files.values())):
            raise TypeError("its run or a file is not text")
        # The names of the record's files.
        self.names = [
            *self.files,
            *(name for name, key in BESIDE.items() if values.get(key) is not None),
        ]

    @cached_property
    def is_whole(self) -> bool:
        """Whether the line fits its checksum: nothing in it has been changed."""
        values = {key: value for key, value in self.values.items() if key != CHECKSUM}
        return bool(self.values.get(CHECKSUM) == checksum_of(values))

    def content(self, name: str) -> bytes | None:
        """Return the bytes of a file of the record; None if it has no such file."""
        if name not in self.names:
            return None
        text = self.beside(name) if name in BESIDE else self.files[name]
        return None if text is None else packed(_bytes(text)) if name == OUTPUTS else _bytes(text)

    def beside(self, name: str) -> str | None:
        """Return the text of a file that has a line of its own; None if no such line fits the record."""
        if self.texts is not None:
            return self.texts.get(BESIDE[name])
        file, digest = beside(self.file, name), self.values.get(BESIDE[name])
        if not file.exists():
            return None
        state = (stat := file.stat()).st_mtime_ns, stat.st_size
        texts = _texts(file, BESIDE[name], state).get(self.run, ())
        # The first records were counted after they had been kept: their lines name no counts.
        is_later = name == COUNTS and digest is None
        return next(
            (text for text in texts if is_later or outputs_digest(_bytes(text)) == digest), None
        )


def file_of(parent: Path) -> Path:
    """Return the file of the store that keeps the records of a folder."""
    return parent.with_name(parent.name + SUFFIX)


def beside(file: Path, name: str) -> Path:
    """Return the file beside the store's `file` that has the text of the file `name` of each record."""
    return file.with_name(f"{file.name.removesuffix(SUFFIX)}.{BESIDE[name]}{SUFFIX}")


def lines(file: Path) -> dict[str, Line]:
    """Return the lines of a file of the store by the run's name; warn of a line that is no record."""
    records: dict[str, Line] = {}
    for line in _parse(file, Line):
        if (
            line.run not in records or not records[line.run].is_whole
        ):  # two branches may have kept one run
            records[line.run] = line
    return records


@lru_cache(maxsize=64)
def _texts(file: Path, key: str, state: object) -> dict[str, list[str]]:
    """Return the texts in a file by the run's name: several if two branches have kept the run."""
    texts: dict[str, list[str]] = {}
    for run, text in _parse(file, lambda _, values: (str(values["run"]), str(values[key]))):
        texts.setdefault(run, []).append(text)
    return texts


def _parse(file: Path, parse: Callable[[Path, Any], Value]) -> Iterator[Value]:
    """Yield parse(file, values) for the JSON values of each line; warn of a line that is no record."""
    for number, text in enumerate(file.read_bytes().splitlines(), 1):
        try:
            yield parse(file, json.loads(_text(text)))
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
            warnings.warn(f"{file}, line {number} is not counted: it is no record", stacklevel=1)


def parents(root: Path) -> Iterator[Path]:
    """Yield the folders below a root that have records in the store."""
    for file in root.rglob(f"*{SUFFIX}"):
        if file.name not in FILES and file.with_suffix("").suffix[1:] not in BESIDE.values():
            yield file.with_name(file.name.removesuffix(SUFFIX))


def as_lines(run: str, contents: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the lines of a record from its files' bytes: its own under "", those beside it by file name.

    Raises ValueError if the outputs cannot be unpacked, or if packing them here does not give the
    same bytes.
    """
    files = {name: _text(content) for name, content in contents.items() if name not in BESIDE}
    values: dict[str, Any] = {"run": run, "files": files, "outputs": None}
    lines = {}
    for name, key in BESIDE.items():
        if name in contents:
            text = _text(unpacked(contents[name]) if name == OUTPUTS else contents[name])
            if name == OUTPUTS and packed(_bytes(text)) != contents[name]:
                raise ValueError(f"{OUTPUTS} is not packed as Python's gzip does here")
            values[key], lines[name] = outputs_digest(_bytes(text)), _json({"run": run, key: text})
    return {**lines, "": _json(with_checksum(values))}


def append(file: Path, run: str, contents: Mapping[str, bytes]) -> bool:
    """Add a record to a file of the store; return whether it is new. ValueError if another has its name."""
    new_lines = as_lines(run, contents)
    file.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(file.with_name(f"{file.name}.lock")):
        old_line = lines(file).get(run) if file.exists() else None
        if old_line is not None and old_line.is_whole:
            if old_line.values != json.loads(_text(new_lines[""])):
                raise ValueError(f"{file.name} has another record of {run}")
            return False
        for name, line in new_lines.items():  # its own is last: with it the record counts
            target = beside(file, name) if name else file
            before = target.read_bytes() if target.exists() else b""
            if name and line in before.splitlines(keepends=True):
                continue  # an interrupted call has written it
            is_cut = before and not before.endswith(b"\n")  # an editor removed the last line feed
            write_whole(target, before + (b"\n" if is_cut else b"") + line)
    return True


def _json(values: Mapping[str, Any]) -> bytes:
    return _bytes(json.dumps(values, ensure_ascii=False) + "\n")


# Bytes that are no UTF-8, such as a patch may have, survive the way to text and back.
def _text(content: bytes) -> str:
    return content.decode(errors="surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")
