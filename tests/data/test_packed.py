"""Packed files that are cut off, corrupted, bombs or otherwise hostile."""

import bz2
import gzip
import hashlib
import io
import lzma
import random
import struct
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from adanorm.data import packed
from tests.data.archives import archive

TEXT = "".join(f"line {random.Random(0).random()} {number}\n" for number in range(5000)).encode()


def tar(path: Path, content: bytes = TEXT, *, level: int = 6) -> Path:
    return archive(path, {"de-en/first.txt": content, "de-en/second.txt": content}, level=level)


def zipped(method: int, members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return buffer.getvalue()


def tarred(kind: bytes, name: str, link: str = "", size: int = 0) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as file:
        member = tarfile.TarInfo(name)
        member.type, member.linkname, member.size = kind, link, size
        file.addfile(member, io.BytesIO(bytes(size)))
    return buffer.getvalue()


def wrong_crc(content: bytes) -> bytes:
    return content[:-8] + bytes([content[-8] ^ 1]) + content[-7:]


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def test_members_are_found_by_the_ends_of_their_paths(tmp_path: Path) -> None:
    assert packed.tar_members(tar(tmp_path / "a.tgz"), ["first.txt"])[0] == {"first.txt": TEXT}
    assert b"".join(packed.lines(tmp_path / "a.tgz", "second.txt")) == TEXT
    for reader in (
        lambda p: list(packed.lines(p, "3.txt")),
        lambda p: packed.tar_members(p, ["3.txt"]),
    ):
        with pytest.raises(ValueError, match=r"a\.tgz: holds no 3\.txt"):
            reader(tmp_path / "a.tgz")


@pytest.mark.parametrize("level", [0, 6])
@pytest.mark.parametrize(
    "broken", [wrong_crc, flipped, lambda content: content[: len(content) // 2]]
)
def test_an_archive_cut_off_or_with_a_wrong_checksum_is_refused(
    tmp_path: Path, broken: Callable[[bytes], bytes], level: int
) -> None:
    path = tar(tmp_path / "a.tgz", level=level)
    path.write_bytes(broken(path.read_bytes()))
    for reader in (packed.check, lambda path: packed.tar_members(path, ["first.txt"])):
        with pytest.raises(ValueError, match=r"a\.tgz: not a whole tar archive"):
            reader(path)
    path = tmp_path / "a.gz"
    path.write_bytes(broken(gzip.compress(TEXT, level)))
    with pytest.raises(ValueError, match=r"a\.gz: not a whole gzip file"):
        packed.content(path)


BOMB = bytes(10_000_000)
size_of = partial(struct.pack, "<I")
HOSTILE: dict[str, tuple[str, Callable[[], bytes]]] = {
    "a zip bomb": ("a.zip", lambda: zipped(8, {"a": BOMB})),
    "a zip whose size is a lie": (
        "a.zip",
        lambda: zipped(8, {"a": BOMB}).replace(size_of(len(BOMB)), size_of(7)),
    ),
    "a zip in bzip2": ("a.zip", lambda: zipped(12, {"a": BOMB})),
    "a zip in lzma": ("a.zip", lambda: zipped(14, {"a": BOMB})),
    "a zip of ..": ("a.zip", lambda: zipped(0, {"../a": TEXT, "/a": TEXT})),
    "a gz bomb": ("a.gz", lambda: gzip.compress(BOMB)),
    "many gz bombs": ("a.gz", lambda: gzip.compress(BOMB[:200_000]) * 50),
    "bzip2 called gz": ("a.gz", lambda: bz2.compress(TEXT)),
    "xz called gz": ("a.gz", lambda: lzma.compress(TEXT)),
    "a tar bomb": ("a.tgz", lambda: gzip.compress(tarred(tarfile.REGTYPE, "a", size=len(BOMB)))),
    # Skipping a member takes time, too.
    "a tar bomb beside": (
        "a.tgz",
        lambda: gzip.compress(tarred(tarfile.REGTYPE, "b", size=len(BOMB))),
    ),
    "a tar of a device": ("a.tar", lambda: tarred(tarfile.CHRTYPE, "a")),
    "a tar of a folder": ("a.tar", lambda: tarred(tarfile.DIRTYPE, "a")),
    "a tar with a long name": ("a.tar", lambda: tarred(tarfile.REGTYPE, "x/" * 5000 + "b")),
}


def unpacked(path: Path) -> bytes:
    """Return the member `a` of an archive, or the content of a gzipped file."""
    if path.suffix == ".zip":
        return packed.zip_members(path, ["a"])[0]["a"]
    if path.suffix == ".gz":
        return packed.content(path)[0]
    list(packed.lines(path, "a"))
    return packed.tar_members(path, ["a"])[0]["a"]


def outcome(path: Path) -> bytes | str:
    """Return the content of an archive, or the line that refuses it and names it; nothing is written."""
    before = sorted(path.parent.iterdir())
    tracemalloc.start()
    try:
        result: bytes | str = unpacked(path)
    except ValueError as refusal:
        result = str(refusal)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < len(BOMB) / 2
    assert sorted(path.parent.iterdir()) == before
    assert isinstance(result, bytes) or (path.name in result and "\n" not in result), result
    return result


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_archive_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(packed, "SMALL", 1 << 16)
    name, make = HOSTILE[kind]
    (tmp_path / name).write_bytes(make())
    refusal = outcome(tmp_path / name)
    assert isinstance(refusal, str)
    assert ("unpacks to" in refusal) == ("bomb" in kind), refusal


def test_an_archive_within_an_archive_stays_packed(tmp_path: Path) -> None:
    inner = zipped(8, {"a": BOMB})
    archive(tmp_path / "a.tgz", {"a": inner})
    (tmp_path / "a.zip").write_bytes(zipped(8, {"a": inner}))
    (tmp_path / "a.gz").write_bytes(gzip.compress(inner))
    assert [outcome(tmp_path / name) for name in ("a.zip", "a.gz", "a.tgz")] == [inner] * 3


def test_members_of_a_zip_archive_count_together_as_a_bomb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed, "SMALL", 1 << 16)
    (tmp_path / "a.zip").write_bytes(zipped(8, dict.fromkeys("abcdefgh", bytes(30_000))))
    with pytest.raises(ValueError, match=r"a\.zip: c unpacks to 90,000 bytes, more than"):
        packed.zip_members(tmp_path / "a.zip", [*"abc"])


def test_a_sparse_member_of_holes_is_a_bomb(tmp_path: Path) -> None:
    member = tarfile.TarInfo("holes.txt")
    member.type, member.size = tarfile.GNUTYPE_SPARSE, 0
    header = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    header[386:398] = header[398:410] = b"00000000000\0"  # one piece, of no bytes
    header[483:495] = b"77777777777\0"  # eight gigabytes of nothing
    header[148:156] = b" " * 8
    header[148:156] = f"{sum(header[:512]):06o}\0 ".encode()
    (tmp_path / "a.tar").write_bytes(bytes(header) + bytes(10240 - len(header)))
    with pytest.raises(ValueError, match=r"a\.tar: holes.txt unpacks to 8,589,934,591 bytes"):
        packed.tar_members(tmp_path / "a.tar", ["holes.txt"])


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
def test_a_zip_archive_that_is_broken_or_lacks_a_member_is_named(
    tmp_path: Path, method: int
) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(zipped(method, {"a": TEXT}))
    with pytest.raises(ValueError, match=r"a\.zip: holds no b"):
        packed.zip_members(path, ["a", "b"])
    path.write_bytes(flipped(path.read_bytes()))
    with pytest.raises(ValueError, match=r"a\.zip: not a readable zip archive \("):
        packed.zip_members(path, ["a"])


def test_links_and_paths_that_lead_out_of_an_archive_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    path = tmp_path / "in" / "a.tar"
    path.parent.mkdir()
    with tarfile.open(path, "w") as file:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE):
            link = tarfile.TarInfo("first.txt")
            link.type, link.linkname = kind, str(tmp_path / "secret.txt")
            file.addfile(link)
        for name in ("../second.txt", f"{tmp_path}/third.txt"):
            file.addfile(tarfile.TarInfo(name), io.BytesIO())
    names = ["second.txt", "third.txt"]
    assert packed.tar_members(path, names)[0] == dict.fromkeys(names, b"")
    with pytest.raises(ValueError, match=r"a\.tar: holds no first\.txt"):
        packed.tar_members(path, ["first.txt"])
    assert sorted(tmp_path.rglob("*.t*")) == [path, tmp_path / "secret.txt"], "nothing is written"


@pytest.mark.parametrize("name", ["a.txt", "a.tgz"])
def test_a_file_that_is_changed_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(packed, "PART", 1024)
    path = tmp_path / name
    path.write_bytes(TEXT) if name == "a.txt" else tar(path, level=0)
    before = path.read_bytes()
    member, checksum = None if name == "a.txt" else "first.txt", hashlib.sha256(before).hexdigest()
    rows = partial(
        packed.lines,
        path,
        member,
        checksum=checksum,
    )
    assert b"".join(rows()) == TEXT
    lines = rows()
    next(lines)
    path.write_bytes(before[:-1] + b"x")
    with pytest.raises(ValueError, match=rf"{name}: was changed while it was read; start again"):
        list(lines)
    path.write_bytes(before)
    assert b"".join(rows()) == TEXT
