"""Packed files that are cut off, corrupted or bombs."""

from __future__ import annotations

import gzip
import io
import random
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from adanorm.data import packed
from adanorm.data.images import read_idx

TEXT = "".join(f"line {random.Random(0).random()} {number}\n" for number in range(5000)).encode()


def tar(path: Path, content: bytes = TEXT, *, level: int = 6) -> Path:
    with tarfile.open(path, "w:gz", compresslevel=level) as archive:
        for name in ("de-en/first.txt", "de-en/second.txt"):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def wrong_crc(content: bytes) -> bytes:
    return content[:-8] + bytes([content[-8] ^ 1]) + content[-7:]


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def test_members_are_found_by_the_ends_of_their_paths(tmp_path: Path) -> None:
    assert packed.tar_members(tar(tmp_path / "a.tgz"), ["first.txt", "third.txt"]) == {"first.txt": TEXT}
    assert b"".join(packed.member_lines(tmp_path / "a.tgz", "second.txt")) == TEXT
    with pytest.raises(ValueError, match=r"a\.tgz: holds no third\.txt"):
        list(packed.member_lines(tmp_path / "a.tgz", "third.txt"))


@pytest.mark.parametrize("level", [0, 6])
@pytest.mark.parametrize("broken", [wrong_crc, flipped, lambda content: content[: len(content) // 2]])
def test_an_archive_that_is_cut_off_or_fails_its_checksum_is_refused(
    tmp_path: Path, broken: Callable[[bytes], bytes], level: int
) -> None:
    path = tar(tmp_path / "a.tgz", level=level)
    path.write_bytes(broken(path.read_bytes()))
    with pytest.raises(ValueError, match=r"a\.tgz: not a whole tar archive"):
        packed.tar_members(path, ["first.txt"])
    with pytest.raises(ValueError, match=r"a\.tgz: not a whole tar archive"):
        packed.check(path)


@pytest.mark.parametrize("broken", [wrong_crc, flipped, lambda content: content[: len(content) // 2]])
def test_a_gzipped_file_that_is_no_more_whole_is_refused(
    tmp_path: Path, broken: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(broken(gzip.compress(TEXT, 0)))
    with pytest.raises(ValueError, match=r"a\.gz: not a whole gzip file"):
        packed.content(path)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "SMALL", 1 << 16)


@pytest.mark.usefixtures("small")
def test_what_unpacks_to_a_thousand_times_its_size_is_a_bomb(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.gz"
    bomb.write_bytes(gzip.compress(bytes(10_000_000)))
    with pytest.raises(ValueError, match=r"bomb\.gz: unpacks to more than [\d,]+ bytes"):
        packed.content(bomb)
    for wanted in ([], ["first.txt"]):  # what is skipped takes time, too
        with pytest.raises(ValueError, match=r"bomb\.tgz: .*unpacks to"):
            packed.tar_members(tar(tmp_path / "bomb.tgz", bytes(10_000_000)), wanted)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", bytes(10_000_000))
    with pytest.raises(ValueError, match=r"bomb\.zip: a unpacks to 10,000,000 bytes"):
        packed.zip_members(tmp_path / "bomb.zip", ["a"])


@pytest.mark.usefixtures("small")
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


def test_images_are_read_no_further_than_their_header_says(tmp_path: Path) -> None:
    header = struct.pack(">HBB3I", 0, 8, 3, 2, 28, 28)
    path = tmp_path / "images.gz"
    path.write_bytes(gzip.compress(header + bytes(60_000_000)))
    with pytest.raises(ValueError, match="holds more than 1,568 values, its header says 1,568"):
        read_idx(path)
    path.write_bytes(gzip.compress(struct.pack(">HBB3I", 0, 8, 3, 2**32 - 1, 28, 28) + bytes(784)))
    with pytest.raises(ValueError, match="holds 784 values, its header says 3,367,254,359,280"):
        read_idx(path)


def test_a_zip_archive_that_is_broken_or_lacks_a_member_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", TEXT)
    with pytest.raises(ValueError, match=r"a\.zip: holds no b"):
        packed.zip_members(path, ["a", "b"])
    path.write_bytes(flipped(path.read_bytes()))
    with pytest.raises(ValueError, match=r"a\.zip: no zip archive that can be read \(Bad CRC-32"):
        packed.zip_members(path, ["a"])
