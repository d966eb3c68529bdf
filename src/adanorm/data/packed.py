"""Untrusted packed files: read as bounded streams and checked to their last byte.

Nothing is unpacked onto the disk, so paths inside an archive are harmless. A file is hashed while
it is read, so the checksum that names a record or a folder is that of the bytes in use.
"""

import gzip
import hashlib
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

# Limits beyond every honest file: text and images pack to a tenth at best, a bomb to a thousandth.
RATIO, SMALL = 64, 1 << 26
BROKEN = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    lzma.LZMAError,
    EOFError,
    zlib.error,
)
KINDS = {".xz": "xz file"}
OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".tgz": gzip.open, ".xz": lzma.open}
UNREADABLE_ZIP = (
    *BROKEN,
    NotImplementedError,
    RuntimeError,
    OverflowError,
    UnicodeError,
    struct.error,
)
PART = 1 << 20  # bytes read at once
TAR = (".tgz", ".tar.gz", ".tar")
PLAIN_ZIP = (
    zipfile.ZIP_STORED,
    zipfile.ZIP_DEFLATED,
)  # others need memory and raise errors of their own

Hashing = Callable[[bytes], object]  # receives the bytes of a file, such as a digest's `update`


def content(path: Path) -> tuple[bytes, str]:
    """Return a file's bytes, unpacked from .gz or .tgz, and the SHA-256 of the file itself.

    Raises ValueError, naming the file, where it is broken or a bomb.
    """
    (unpacked,), checksum = contents([path])
    return unpacked, checksum


def contents(paths: Iterable[Path]) -> tuple[list[bytes], str]:
    """Return files' bytes, unpacked, and the SHA-256 of the files themselves, one after another."""
    digest, unpacked = hashlib.sha256(), []
    for path in paths:
        with open_unpacked(path, digest.update) as stream:
            unpacked.append(stream.read())
    return unpacked, digest.hexdigest()


@contextmanager
def open_unpacked(path: Path, hashing: Hashing | None = None) -> Iterator[BinaryIO]:
    """Yield a stream of a file's bytes, unpacked if its name ends in .gz, .tgz or .xz.

    Reading raises ValueError, naming the file, where it is cut off, corrupted (gzip compares
    checksums at the end) or unpacks to more than `most_bytes(path)`. `hashing` receives every byte
    of the file itself, at the end of the block also those that it left unread.
    """
    opener, remaining = OPENERS.get(path.suffix), most_bytes(path)

    def count(part: bytes) -> None:
        nonlocal remaining
        remaining -= len(part)
        if remaining < 0:
            raise ValueError(f"{path.name}: unpacks to more than {most_bytes(path):,} bytes")

    try:
        if opener and path.stat().st_size == 0:  # gzip takes it for the packed form of no bytes
            raise EOFError("it is empty")
        with path.open("rb") as file:
            raw = _Tee(file, hashing or len)
            stream = cast(BinaryIO, opener(raw) if opener else raw)
            yield io.BufferedReader(_Tee(stream, count), PART)
            if hashing is not None:
                _read_to_end(raw)
    except BROKEN as error:
        kind = "tar archive" if path.name.endswith(TAR) else KINDS.get(path.suffix, "gzip file")
        raise ValueError(f"{path.name}: not a whole {kind} ({error})") from None


def _read_to_end(stream: io.RawIOBase | BinaryIO) -> None:
    """Read the rest of a stream and drop it: gzip compares checksums only at the end."""
    while stream.read(PART):
        pass


class _Tee(io.RawIOBase):
    """A stream that also passes its bytes to a function."""

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
    """Yield the lines of a file, each with its line feed, unpacked if its name ends in .gz or .tgz.

    With `member`, yield those of the first file in a tar archive whose path ends in it; the archive
    behind it is not unpacked. Raises ValueError, naming file or archive, where it lacks the member,
    is cut off, corrupted or a bomb, and where its SHA-256 is not `checksum`.
    """
    digest = hashlib.sha256()
    with open_unpacked(path, digest.update if checksum else None) as stream:
        if member is None:
            yield from stream
        else:
            members = _members(path, stream, [member])
            first = next(members, None)
            if first is None:
                raise ValueError(f"{path.name}: holds no {member}")
            yield from first[1]
    if checksum not in (None, digest.hexdigest()):
        raise ValueError(
            f"{path.name}: was changed while it was read; start again with what is to be used"
        )


def text_lines(content: bytes, name: str, *, before: int = 0) -> list[str]:
    """Return the lines of a UTF-8 text, without a byte order mark; only a line feed ends a line.

    `before` is the number of earlier lines in the file. Raises ValueError naming a line that is not
    UTF-8.
    """
    try:
        text = content.decode("utf-8" if before else "utf-8-sig")
    except UnicodeDecodeError as error:
        number = before + content[: error.start].count(b"\n") + 1
        raise ValueError(f"{name}, line {number}: not UTF-8 ({error.reason})") from None
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def most_bytes(path: Path) -> int:
    """Return the number of bytes that a file may unpack to."""
    return max(SMALL, RATIO * path.stat().st_size)


def tar_members(path: Path, suffixes: Sequence[str]) -> tuple[dict[str, bytes], str]:
    """Return the contents of files in a tar archive, gzipped or not, and the archive's SHA-256.

    The first file whose path ends in a suffix is the content of that suffix. Reads the archive to
    its end. Raises ValueError, naming it, where it lacks a file, is broken or a bomb.
    """
    digest, unpacked = hashlib.sha256(), {}
    with open_unpacked(path, digest.update) as stream:
        for suffix, file in _members(path, stream, suffixes):
            unpacked[suffix] = file.read()
        _read_to_end(stream)
    _check_members(path, suffixes, unpacked)
    return {suffix: unpacked[suffix] for suffix in suffixes}, digest.hexdigest()


def _members(
    path: Path, stream: BinaryIO, suffixes: Sequence[str]
) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield suffix and file for each member of a tar archive whose path ends in a suffix."""
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            suffix = next((s for s in suffixes if f"/{member.name}".endswith(f"/{s}")), None)
            if suffix and member.isfile():
                # A sparse member's zeros are not in the archive.
                _check_size(path, member.name, member.size)
                file = archive.extractfile(member)
                assert file is not None, "a file has content"
                yield suffix, file


def zip_members(path: Path, names: Sequence[str]) -> tuple[dict[str, bytes], str]:
    """Return members of a zip archive by name, and the archive's SHA-256.

    Raises ValueError, naming the archive, where it lacks a member, is broken or a bomb.
    """
    raw, checksum = content(path)
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            members = {member.filename: member for member in archive.infolist()}
            _check_members(path, names, members)
            for name in names:
                if members[name].compress_type not in PLAIN_ZIP:
                    raise NotImplementedError(f"{name} is packed by a method other than deflate")
            unpacked, size = {}, 0
            for name in names:
                size += members[name].file_size
                _check_size(path, name, size)
                with archive.open(name) as file:  # bounded: a member may be longer than declared
                    unpacked[name] = file.read(members[name].file_size)
            return unpacked, checksum
    except UNREADABLE_ZIP as error:
        raise ValueError(f"{path.name}: not a readable zip archive ({error})") from None


def _check_members(path: Path, names: Sequence[str], members: Mapping[str, object]) -> None:
    for name in names:
        if name not in members:
            raise ValueError(f"{path.name}: holds no {name}")


def _check_size(path: Path, member: str, size: int) -> None:
    if size > most_bytes(path):
        raise ValueError(
            f"{path.name}: {member} unpacks to {size:,} bytes, more than {most_bytes(path):,}"
        )


def check(path: Path) -> None:
    """Read a tar archive or .gz file (no other) to its end.

    Raises ValueError, naming it, if not whole.
    """
    if path.name.endswith(TAR):
        tar_members(path, [])
    elif path.suffix == ".gz":
        with open_unpacked(path) as stream:
            _read_to_end(stream)
