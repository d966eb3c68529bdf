"""Hostile archives: what was packed, or a line; nothing is written and memory stays bounded."""

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from adanorm.data import packed
from tests.data.archives import archive
from tests.faults.spoiling import OF_BYTES

TEXT = b"".join(b"line %d\n" % number for number in range(4000))
SMALL = 1 << 20  # what a file may unpack to here
METHODS = {"stored": 0, "deflated": 8, "bzip2": 12, "lzma": 14}  # as zipfile numbers them


def zipped(method: int, members: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return made.getvalue()


def tarred(kind: bytes, name: str, link: str = "", size: int = 0) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as file:
        member = tarfile.TarInfo(name)
        member.type, member.linkname, member.size = kind, link, size
        file.addfile(member, io.BytesIO(bytes(size)))
    return made.getvalue()


def with_size(content: bytes, old: int, new: int) -> bytes:
    return content.replace(struct.pack("<I", old), struct.pack("<I", new))


BOMB = bytes(100_000_000)
HOSTILE: dict[str, tuple[str, Callable[[], bytes]]] = {
    "a zip bomb": ("a.zip", lambda: zipped(8, {"a": BOMB})),
    "a zip bomb that lies": ("a.zip", lambda: with_size(zipped(8, {"a": BOMB}), len(BOMB), 7)),
    "a zip in bzip2": ("a.zip", lambda: zipped(12, {"a": BOMB[:9_000_000]})),
    "a zip in lzma": ("a.zip", lambda: zipped(14, {"a": BOMB[:9_000_000]})),
    "a zip within a zip": ("a.zip", lambda: zipped(0, {"b.zip": zipped(8, {"a": TEXT})})),
    "a zip of ..": ("a.zip", lambda: zipped(0, {"../a": TEXT, "/a": TEXT})),
    "a gz bomb": ("a.gz", lambda: gzip.compress(BOMB)),
    "many gz bombs": ("a.gz", lambda: gzip.compress(BOMB[:200_000]) * 500),
    "bzip2 called gz": ("a.gz", lambda: bz2.compress(TEXT)),
    "xz called gz": ("a.gz", lambda: lzma.compress(TEXT)),
    "a tar bomb": ("a.tgz", lambda: gzip.compress(tarred(tarfile.REGTYPE, "a", size=9_000_000))),
    "a tar bomb beside": ("a.tgz", lambda: gzip.compress(tarred(tarfile.REGTYPE, "b", size=9_000_000))),
    "a tar of a link": ("a.tar", lambda: tarred(tarfile.SYMTYPE, "a", "/etc/passwd")),
    "a tar of a hard link": ("a.tar", lambda: tarred(tarfile.LNKTYPE, "a", "../secret")),
    "a tar of a device": ("a.tar", lambda: tarred(tarfile.CHRTYPE, "a")),
    "a tar of a folder": ("a.tar", lambda: tarred(tarfile.DIRTYPE, "a")),
    "a tar with a long name": ("a.tar", lambda: tarred(tarfile.REGTYPE, "x/" * 5000 + "b")),
    "a tar within a tar": ("a.tar", lambda: tarred(tarfile.REGTYPE, "b.tar", size=10)),
}


def read(path: Path) -> bytes:
    """Return the member `a` of an archive, or the content of a gzipped file."""
    if path.suffix == ".zip":
        return packed.zip_members(path, ["a"])["a"]
    if path.suffix == ".gz":
        return packed.content(path)
    list(packed.lines(path, "a"))
    return packed.tar_members(path, ["a"])["a"]


def outcome(path: Path) -> bytes | str:
    """Return what an archive holds or why it is refused, in a line that names it; nothing is written."""
    before = sorted(path.parent.iterdir())
    tracemalloc.start()
    try:
        held: bytes | str = read(path)
    except ValueError as refusal:
        held = str(refusal)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 30_000_000
    assert sorted(path.parent.iterdir()) == before
    assert isinstance(held, bytes) or (path.name in held and "\n" not in held), held
    return held


@pytest.mark.nightly
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_archive_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(packed, "SMALL", SMALL)
    name, make = HOSTILE[kind]
    (tmp_path / "secret").write_bytes(TEXT)
    (tmp_path / name).write_bytes(make())
    assert isinstance(outcome(tmp_path / name), str)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["a.zip", "a.gz", "a.tgz"])
def test_an_archive_within_an_archive_stays_packed(tmp_path: Path, name: str) -> None:
    inner = zipped(8, {"a": BOMB})
    archive(tmp_path / "a.tgz", {"a": inner})
    (tmp_path / "a.zip").write_bytes(zipped(8, {"a": inner}))
    (tmp_path / "a.gz").write_bytes(gzip.compress(inner))
    assert outcome(tmp_path / name) == inner


@pytest.mark.nightly
@pytest.mark.parametrize("number", range(12))
@pytest.mark.parametrize("how", [how for how in OF_BYTES if how != "removed"])
@pytest.mark.parametrize("kind", [*METHODS, "gz", "tgz"])
def test_a_spoiled_archive_gives_what_was_packed_or_a_line(
    tmp_path: Path, kind: str, how: str, number: int
) -> None:
    path = tmp_path / ("a.zip" if kind in METHODS else f"a.{kind}")
    if kind == "tgz":
        content = archive(path, {"a": TEXT}).read_bytes()
    else:
        content = zipped(METHODS[kind], {"a": TEXT}) if kind in METHODS else gzip.compress(TEXT)
    start, end = 0, len(content)
    if number % 3 == 0 and "flipped" in how:  # in the directory or the header, where little is stored
        start, end = (end - 90, end) if kind in METHODS else (0, 40)
    spoiled = OF_BYTES[how](content[start:end], Random(f"{kind} {how} {number}"))
    path.write_bytes(content[:start] + spoiled + content[end:])
    assert isinstance(held := outcome(path), str) or held == TEXT
