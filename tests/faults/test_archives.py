"""Spoiled archives give their content or a one-line refusal; they write nothing and memory stays bounded."""

import gzip
from pathlib import Path
from random import Random

import pytest

from tests.data.archives import archive
from tests.data.test_packed import TEXT, outcome, zipped
from tests.faults.spoiling import OF_BYTES, REMOVED

METHODS = {"stored": 0, "deflated": 8, "bzip2": 12, "lzma": 14}  # as zipfile numbers them


@pytest.mark.nightly
@pytest.mark.parametrize("number", range(12))
@pytest.mark.parametrize("how", [how for how in OF_BYTES if how != REMOVED])
@pytest.mark.parametrize("kind", [*METHODS, "gz", "tgz"])
def test_a_spoiled_archive_is_read_whole_or_refused(
    tmp_path: Path, kind: str, how: str, number: int
) -> None:
    path = tmp_path / ("a.zip" if kind in METHODS else f"a.{kind}")
    if kind == "tgz":
        content = archive(path, {"a": TEXT}).read_bytes()
    else:
        content = zipped(METHODS[kind], {"a": TEXT}) if kind in METHODS else gzip.compress(TEXT)
    start, end = 0, len(content)
    if (
        number % 3 == 0 and "flipped" in how
    ):  # in the directory or the header, where little is stored
        start, end = (end - 90, end) if kind in METHODS else (0, 40)
    spoiled = OF_BYTES[how](content[start:end], Random(f"{kind} {how} {number}"))
    path.write_bytes(content[:start] + spoiled + content[end:])
    assert isinstance(result := outcome(path), str) or result == TEXT
