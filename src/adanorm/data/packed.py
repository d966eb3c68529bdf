"""Packed files, read without being trusted: streamed, bounded, and checked to their last byte.

Nothing is unpacked onto the disk, so the paths inside an archive lead nowhere. A file is hashed as its bytes
are taken: what a record or a folder is named after is what was read.
"""

import gzip
import hashlib
import io
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO, cast

# What no honest file reaches: text and images pack to a tenth at best, a bomb to a thousandth.
RATIO, SMALL = 64, 1 << 26
BROKEN = (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, EOFError, zlib.error)
PART = 1 << 20
TAR = (".tgz", ".tar.gz", ".tar")
PLAIN_ZIP = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # others want memory and fail in ways of their own

Hashing = Callable[[bytes], object]  # takes the bytes of a file, such as the `update` of a digest


def content(path: Path, hashing: Hashing | None = None) -> bytes:
    """Return a file's bytes, unpacked if it ends in .gz; raises ValueError where it is broken or a bomb."""
    with opened(path, hashing) as stream:
        return stream.read()


@contextmanager
def opened(path: Path, hashing: Hashing | None = None) -> Iterator[BinaryIO]:
    """Yield a stream of a file's bytes, unpacked if its name ends in .gz or .tgz.

    At its end gzip compares checksums. The block raises ValueError, naming the file, where it turns out to be
    cut off or corrupted, and beyond `most(path)` bytes. `hashing` gets every byte of the file itself: what
    the block leaves unread follows when it ends.
    """
    is_packed, left = path.suffix in (".gz", ".tgz"), most(path)

    def count(part: bytes) -> None:
        nonlocal left
        left -= len(part)
        if left < 0:
            raise ValueError(f"{path.name}: unpacks to more than {most(path):,} bytes")

    try:
        if is_packed and path.stat().st_size == 0:  # which gzip takes for packed nothing
            raise EOFError("it is empty")
        with path.open("rb") as file:
            raw = _Taken(file, hashing or len)
            stream = cast(BinaryIO, gzip.open(raw) if is_packed else raw)  # noqa: SIM115
            yield io.BufferedReader(_Taken(stream, count), PART)
            if hashing is not None:
                _read_to_end(raw)
    except BROKEN as error:
        kind = "tar archive" if path.name.endswith(TAR) else "gzip file"
        raise ValueError(f"{path.name}: not a whole {kind} ({error})") from None


def _read_to_end(stream: io.RawIOBase | BinaryIO) -> None:
    """Read what is left of a stream and drop it; only at the end does gzip compare checksums."""
    while stream.read(PART):
        pass


class _Taken(io.RawIOBase):
    """A stream whose bytes are also given to a function."""

    def __init__(self, stream: BinaryIO, take: Hashing) -> None:
        self._stream, self._take = stream, take

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        part = self._stream.read(len(buffer))
        self._take(part)
        buffer[: len(part)] = part
        return len(part)


def lines(path: Path, member: str | None = None, *, checksum: str | None = None) -> Iterator[bytes]:
    """Yield the lines of a file, each with its line feed, unpacked if its name ends in .gz.

    With a `member`, those of the file in a tar archive, gzipped or not, whose path ends so; what comes after
    it is not unpacked. Raises ValueError, naming the archive or file, where it lacks the member, is cut off,
    corrupted or a bomb, and where its SHA-256 is not `checksum`.
    """
    digest = hashlib.sha256()
    with opened(path, digest.update if checksum else None) as stream:
        for file in [stream] if member is None else (file for _, file in _members(path, stream, [member])):
            yield from file
            break
        else:
            raise ValueError(f"{path.name}: holds no {member}")
    if checksum not in (None, digest.hexdigest()):
        raise ValueError(f"{path.name}: was changed while it was read; start again with what is to be used")


def text_lines(content: bytes, name: str, *, before: int = 0) -> list[str]:
    """Return the lines of a UTF-8 text, without a byte order mark; only a line feed ends a line.

    `before` lines of the file come before these. Raises ValueError naming the line that is not UTF-8.
    """
    try:
        text = content.decode("utf-8" if before else "utf-8-sig")
    except UnicodeDecodeError as error:
        number = before + content[: error.start].count(b"\n") + 1
        raise ValueError(f"{name}, line {number}: not UTF-8 ({error.reason})") from None
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def most(path: Path) -> int:
    """Return how many bytes a file may unpack to."""
    return max(SMALL, RATIO * path.stat().st_size)


def tar_members(path: Path, suffixes: Sequence[str], hashing: Hashing | None = None) -> dict[str, bytes]:
    """Return the contents of the files in a tar archive, gzipped or not, whose paths end so, by suffix.

    It is read to its end. Raises ValueError, naming it, where it lacks one, is cut off, corrupted or a bomb.
    """
    with opened(path, hashing) as stream:
        contents = {suffix: file.read() for suffix, file in _members(path, stream, suffixes)}
        _read_to_end(stream)
    if lacking := next((suffix for suffix in suffixes if suffix not in contents), None):
        raise ValueError(f"{path.name}: holds no {lacking}")
    return {suffix: contents[suffix] for suffix in suffixes}


def _members(path: Path, stream: BinaryIO, suffixes: Sequence[str]) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield the suffix and the file of each member of a tar archive whose path ends so."""
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            suffix = next((s for s in suffixes if f"/{member.name}".endswith(f"/{s}")), None)
            if suffix and member.isfile():
                _check_size(path, member.name, member.size)  # a sparse member can be all holes
                file = archive.extractfile(member)
                assert file is not None, "a file has content"
                yield suffix, file


def zip_members(path: Path, names: Sequence[str], hashing: Hashing | None = None) -> dict[str, bytes]:
    """Return members of a zip archive by name; raises ValueError where it lacks one, is broken or a bomb."""
    packed = content(path, hashing)
    try:
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            known = {member.filename: member for member in archive.infolist()}
            if lacking := next((name for name in names if name not in known), None):
                raise ValueError(f"{path.name}: holds no {lacking}")
            if odd := next((name for name in names if known[name].compress_type not in PLAIN_ZIP), None):
                raise NotImplementedError(f"{odd} is packed by a method other than deflate")
            contents, size = {}, 0
            for name in names:
                _check_size(path, name, size := size + known[name].file_size)
                with archive.open(name) as file:  # never more than it declares, which it may exceed
                    contents[name] = file.read(known[name].file_size)
            return contents
    except (*BROKEN, NotImplementedError, RuntimeError, OverflowError, UnicodeError, struct.error) as error:
        raise ValueError(f"{path.name}: no zip archive that can be read ({error})") from None


def _check_size(path: Path, member: str, size: int) -> None:
    if size > most(path):
        raise ValueError(f"{path.name}: {member} unpacks to {size:,} bytes, more than {most(path):,}")


def check(path: Path) -> None:
    """Read an archive or a gzipped file to its end; raises ValueError, naming it, where it is not whole."""
    if path.name.endswith(TAR):
        tar_members(path, [])
    elif path.suffix == ".gz":
        with opened(path) as stream:
            _read_to_end(stream)
