"""Files that are whole, whatever happens while they are written; digests of them and of plain values."""

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

CHECKSUM = "checksum"  # the key under which a JSON file has the checksum of all else in it


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it holds either its old or its new content, whatever happens."""
    with writing(path) as file:
        file.write(content)


def write_files(folder: Path, contents: Mapping[str, str | bytes]) -> list[Path]:
    """Write files, one after the other, by their paths in a folder, and return them; folders are made."""
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_whole(folder / name, content.encode() if isinstance(content, str) else content)
    return [folder / name for name in contents]


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """Yield a file to write; its content is that of `path` once the block has ended, and not before.

    Meanwhile it is `<name>.tmp` and locked: such a file without a lock is the leftover of a killed
    process. An OSError names `path`.
    """
    temporary = path.with_name(f"{path.name}.tmp")
    with naming(path), _created(temporary) as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name a path in an OSError that names none, such as that of a full disk, or what becomes the path."""
    try:
        yield
    except OSError as error:
        if error.filename in (None, f"{path}.tmp") and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


def sweep(folder: Path) -> None:
    """Remove the temporary files of a folder that no process is writing; the folder need not exist."""
    for leftover in folder.glob("*.tmp"):
        with suppress(OSError):  # somebody else's
            _removed(leftover)


def _created(path: Path) -> BinaryIO:
    """Return a new file, locked; wait while another process writes it. A symbolic link is not followed."""
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            if not _removed(path):
                time.sleep(0.05)
            continue
        file = os.fdopen(descriptor, "w+b")
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if _is_at(descriptor, path):  # not swept before it was locked
            return file
        file.close()


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _removed(path: Path) -> bool:
    """Remove a temporary file and return whether it is gone: it stays while a process holds it."""
    if path.is_symlink():
        path.unlink(missing_ok=True)
        return True
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(file.fileno(), path):  # the file opened above, not a newer one of another process
                path.unlink(missing_ok=True)
            return True
    except FileNotFoundError:
        return True
    except BlockingIOError:
        return False


def digest_of(identity: dict[str, Any]) -> str:
    """Return eight hexadecimal digits that identify what plain values describe; 1 and 1.0 are one value."""

    def number(text: str) -> float:
        value = float(text)
        return int(value) if value.is_integer() else value

    canonical = json.loads(json.dumps(identity), parse_float=number)
    text = json.dumps(canonical, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def sha256(*paths: Path) -> str:
    """Return the SHA-256 of the content of files, one after the other, in hexadecimal."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            hashlib.file_digest(file, lambda: digest)
    return digest.hexdigest()


def checksum_of(values: Mapping[str, Any]) -> str:
    """Return the SHA-256 of plain values, without their checksum, however they are laid out."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def as_json(value: Any) -> bytes:
    """Return plain values as the text of a file; raises ValueError for a number that is not finite."""
    return (json.dumps(value, indent=1, allow_nan=False) + "\n").encode()


def with_checksum(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain values with their checksum as the last."""
    return {**values, CHECKSUM: checksum_of(values)}


def whole(values: Any) -> dict[str, Any]:
    """Return values without their checksum; raises ValueError where they are not those that were written."""
    if not isinstance(values, dict):
        raise ValueError("it is no JSON object")
    rest = {key: value for key, value in values.items() if key != CHECKSUM}
    if values.get(CHECKSUM) != checksum_of(rest):
        raise ValueError("it is not what was written" if CHECKSUM in values else "it has no checksum")
    return rest
