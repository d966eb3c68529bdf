"""Packed files that are cut off, corrupted or bombs."""

import gzip
import hashlib
import io
import random
import tarfile
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


def wrong_crc(content: bytes) -> bytes:
    return content[:-8] + bytes([content[-8] ^ 1]) + content[-7:]


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def test_members_are_found_by_the_ends_of_their_paths(tmp_path: Path) -> None:
    assert packed.tar_members(tar(tmp_path / "a.tgz"), ["first.txt"]) == {"first.txt": TEXT}
    assert b"".join(packed.lines(tmp_path / "a.tgz", "second.txt")) == TEXT
    for read in (lambda p: list(packed.lines(p, "3.txt")), lambda p: packed.tar_members(p, ["3.txt"])):
        with pytest.raises(ValueError, match=r"a\.tgz: holds no 3\.txt"):
            read(tmp_path / "a.tgz")


@pytest.mark.parametrize("level", [0, 6])
@pytest.mark.parametrize("broken", [wrong_crc, flipped, lambda content: content[: len(content) // 2]])
def test_what_is_cut_off_or_fails_its_checksum_is_refused(
    tmp_path: Path, broken: Callable[[bytes], bytes], level: int
) -> None:
    path = tar(tmp_path / "a.tgz", level=level)
    path.write_bytes(broken(path.read_bytes()))
    for read in (packed.check, lambda path: packed.tar_members(path, ["first.txt"])):
        with pytest.raises(ValueError, match=r"a\.tgz: not a whole tar archive"):
            read(path)
    path = tmp_path / "a.gz"
    path.write_bytes(broken(gzip.compress(TEXT, level)))
    with pytest.raises(ValueError, match=r"a\.gz: not a whole gzip file"):
        packed.content(path)


def test_what_unpacks_to_a_thousand_times_its_size_is_a_bomb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed, "SMALL", 1 << 16)
    bomb = tmp_path / "bomb.gz"
    bomb.write_bytes(gzip.compress(bytes(10_000_000)))
    with pytest.raises(ValueError, match=r"bomb\.gz: unpacks to more than [\d,]+ bytes"):
        packed.content(bomb)
    for wanted in ([], ["first.txt"]):  # what is skipped takes time, too
        with pytest.raises(ValueError, match=r"bomb\.tgz: .*unpacks to"):
            packed.tar_members(tar(tmp_path / "bomb.tgz", bytes(10_000_000)), wanted)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as bombs:
        for name in "abcdefgh":
            bombs.writestr(name, bytes(30_000))
    with pytest.raises(ValueError, match=r"bomb\.zip: c unpacks to 90,000 bytes, more than"):
        packed.zip_members(tmp_path / "bomb.zip", [*"abc"])  # together


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
def test_a_zip_archive_that_is_broken_or_lacks_a_member_is_named(tmp_path: Path, method: int) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", method) as made:
        made.writestr("a", TEXT)
    with pytest.raises(ValueError, match=r"a\.zip: holds no b"):
        packed.zip_members(path, ["a", "b"])
    path.write_bytes(flipped(path.read_bytes()))
    with pytest.raises(ValueError, match=r"a\.zip: no zip archive that can be read \("):
        packed.zip_members(path, ["a"])


def test_links_and_paths_that_lead_out_of_an_archive_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    path = tmp_path / "in" / "a.tar"
    path.parent.mkdir()
    with tarfile.open(path, "w") as made:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE):
            link = tarfile.TarInfo("first.txt")
            link.type, link.linkname = kind, str(tmp_path / "secret.txt")
            made.addfile(link)
        for name in ("../second.txt", f"{tmp_path}/third.txt"):
            made.addfile(tarfile.TarInfo(name), io.BytesIO())
    names = ["second.txt", "third.txt"]
    assert packed.tar_members(path, names) == dict.fromkeys(names, b"")
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
    rows = partial(packed.lines, path, member, checksum=checksum)
    assert b"".join(rows()) == TEXT
    lines = rows()
    next(lines)
    path.write_bytes(before[:-1] + b"x")
    with pytest.raises(ValueError, match=rf"{name}: was changed while it was read; start again"):
        list(lines)
    path.write_bytes(before)
    assert b"".join(rows()) == TEXT
