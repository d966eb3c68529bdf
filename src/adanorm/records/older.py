"""Records of older times, which have no checksum of their own (results/older-records.txt lists theirs)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from adanorm.config.paths import SHIPPED
from adanorm.records.check import digests
from adanorm.records.sealed import checksum_of

PATH = SHIPPED / "results" / "older-records.txt"


@cache
def _listed() -> frozenset[str]:
    """Return the checksums on the list, whose lines are a checksum and the folder that it is of."""
    lines = PATH.read_text("utf-8").splitlines() if PATH.exists() else []
    return frozenset(line.split()[0] for line in lines)


def is_listed(folder: Path) -> bool:
    """Return whether a record without a checksum is one of older times, to the byte, wherever it lies."""
    return checksum_of_older(folder) in _listed()


def checksum_of_older(folder: Path) -> str:
    """Return the checksum that a record would have, had it been written with one."""
    values = json.loads((folder / "result.json").read_bytes())
    return checksum_of({**values, "files": digests(folder)})
