"""The store: what is done and kept, one line per record in <folder>.jsonl, with its files' texts verbatim.

The test set's outputs stand beside, in <folder>.outputs.jsonl, as the text that predictions.txt.gz packs.
"""

from __future__ import annotations

import gzip
import json
import warnings
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from adanorm.records.check import FILES, OUTPUTS
from adanorm.records.sealed import CHECKSUM, checksum_of

SUFFIX, OUTPUTS_SUFFIX = ".jsonl", ".outputs.jsonl"


class Line:
    """One record of the store."""

    def __init__(self, file: Path, values: Mapping[str, Any]) -> None:
        self.file, self._values = file, values
        self.run: str = values["run"]
        self._files: Mapping[str, str] = values["files"]

    @cached_property
    def is_whole(self) -> bool:
        """Whether the line is what was written."""
        values = {key: value for key, value in self._values.items() if key != CHECKSUM}
        return bool(self._values.get(CHECKSUM) == checksum_of(values))

    def has(self, name: str) -> bool:
        """Return whether the record has a file of a name."""
        return self._values.get("outputs") is not None if name == OUTPUTS else name in self._files

    def content(self, name: str) -> bytes | None:
        """Return the bytes of a file of the record; None where it has none of that name."""
        if not self.has(name):
            return None
        if name == OUTPUTS:
            return gzip.compress(self.outputs().encode(), mtime=0)
        return self._files[name].encode()

    def outputs(self) -> str:
        """Return the text of the test set's outputs; raises OSError where they are not those of the line."""
        raise NotImplementedError


def file_of(parent: Path) -> Path:
    """Return the file that keeps the records of a folder."""
    return parent.with_name(parent.name + SUFFIX)


def lines(file: Path) -> dict[str, Line]:
    """Return the lines of a file of the store by the run's name; a line that is no record is warned of."""
    found: dict[str, Line] = {}
    for number, text in enumerate(file.read_bytes().splitlines(), 1):
        try:
            line = Line(file, json.loads(text))
        except (ValueError, RecursionError, KeyError, TypeError):
            warnings.warn(f"{file}, line {number} is not counted: it is no record", stacklevel=1)
            continue
        if line.run not in found or not found[line.run].is_whole:  # two branches may have kept one run
            found[line.run] = line
    return found


def parents(root: Path) -> Iterator[Path]:
    """Yield the folders under a root whose records the store has."""
    for file in root.rglob(f"*{SUFFIX}"):
        if not file.name.endswith(OUTPUTS_SUFFIX) and file.name not in FILES:
            yield file.with_name(file.name.removesuffix(SUFFIX))
