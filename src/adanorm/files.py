"""Writing files so that they are never incomplete; checksums of files."""

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

Values: TypeAlias = dict[str, Any]  # of an object of JSON or YAML
Fields: TypeAlias = Mapping[str, Any]  # of such an object, which is only read
LONGEST_CHAIN = 40  # of links, as in Linux
CHECKSUM = "checksum"  # a JSON file's key for the checksum of all its other content


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it holds either its old or its new content, whatever happens."""
    with writing(path) as file:
        file.write(content)


def write_files(folder: Path, contents: Mapping[str, str | bytes]) -> list[Path]:
    """Write files one by one, each by its path in `folder`, creating folders.

    Return their full paths.
    """
    for name, content in contents.items():
        create_folder((folder / name).parent)
        write_whole(folder / name, content.encode() if isinstance(content, str) else content)
    return [folder / name for name in contents]


def create_folder(path: Path) -> None:
    """Create a folder and its parents; a link to a folder that does not exist creates that one."""
    os.makedirs(os.path.realpath(path), exist_ok=True)


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """Yield a file to write.

    It becomes `path` when the block has ended without an error, and not before. Until then it is
    `<name>.tmp` and locked; such a file without a lock is the leftover of a killed process. A file
    that was there keeps its permissions. An OSError names `path`.
    """
    temporary = path.with_name(f"{path.name}.tmp")
    with naming(path), _create_locked(temporary) as file:
        try:
            with suppress(FileNotFoundError):
                os.fchmod(file.fileno(), path.stat().st_mode & 0o777)
            yield file
            file.flush()
            os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


@contextmanager
def writing_to(path: Path) -> Iterator[BinaryIO]:
    """Yield a file that a user named, to write: where a link leads, and into a device or a pipe.

    What the path of an open descriptor has written before, such as /dev/stdout, stays.
    """
    descriptor = descriptor_of(path)
    if descriptor is not None:
        print(end="", flush=True)  # what was printed stands in front
        with naming(path), os.fdopen(os.dup(descriptor), "wb") as file:
            yield file
    elif path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
    else:
        with writing(Path(os.path.realpath(path))) as file:
            yield file


def descriptor_of(path: Path) -> int | None:
    """Return the descriptor of this process that a path or link names, such as /dev/fd/1; or None."""
    descriptors = os.path.realpath("/proc/self/fd")
    for _ in range(LONGEST_CHAIN):
        if os.path.realpath(path.parent) == descriptors:
            return int(path.name) if path.name.isdecimal() else None
        if not path.is_symlink():
            break
        path = path.parent / path.readlink()
    return None


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Make an OSError name `path` if it names no file (a full disk), or the temporary file."""
    try:
        yield
    except OSError as error:
        if error.filename in (None, f"{path}.tmp") and error.errno is not None:
            raise OSError(
                error.errno,
                error.strerror,
                str(path),
            ) from None
        raise


def sweep(folder: Path) -> None:
    """Remove a folder's temporary files that no process is writing; the folder need not exist."""
    for leftover in folder.glob("*.tmp"):
        with suppress(OSError):  # it may belong to another user
            _remove_leftover(leftover)


def _create_locked(path: Path) -> BinaryIO:
    """Return a new, locked file, waiting while another process writes it.

    Symbolic links are not followed.
    """
    while True:
        try:
            descriptor = os.open(
                path,
                os.O_RDWR | os.O_CREAT | os.O_EXCL,
                0o666,
            )
        except FileExistsError:
            if not _remove_leftover(path):
                time.sleep(0.05)
            continue
        file = os.fdopen(descriptor, "w+b")
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if _is_at(descriptor, path):  # another process did not sweep it before it was locked
            return file
        file.close()


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _remove_leftover(path: Path) -> bool:
    """Remove a temporary file unless a process has locked it; return whether it is gone."""
    if path.is_symlink():
        path.unlink(missing_ok=True)
        return True
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(file.fileno(), path):  # not a newer file of another process
                path.unlink(missing_ok=True)
            return True
    except FileNotFoundError:
        return True
    except BlockingIOError:
        return False


def checksum_of(values: Mapping[str, Any]) -> str:
    """Return the SHA-256 of plain values in hexadecimal, whatever the order of their keys."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def as_json(value: Any) -> bytes:
    """Return plain values as a JSON file's content.

    Raises ValueError for a number that is not finite.
    """
    return (
        json.dumps(
            value,
            indent=1,
            allow_nan=False,
        )
        + "\n"
    ).encode()


def with_checksum(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain values with their checksum as the last entry."""
    return {**values, CHECKSUM: checksum_of(values)}


def without_checksum(values: Any) -> dict[str, Any]:
    """Return values without their checksum.

    Raises ValueError if they differ from what was written.
    """
    if not isinstance(values, dict):
        raise ValueError("it is not a JSON object")
    rest = {key: value for key, value in values.items() if key != CHECKSUM}
    if values.get(CHECKSUM) != checksum_of(rest):
        raise ValueError("it has been changed" if CHECKSUM in values else "it has no checksum")
    return rest
