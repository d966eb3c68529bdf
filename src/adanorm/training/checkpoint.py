"""Checkpoints: plain tensors and numbers, written whole, with a checksum that is compared on reading."""

from __future__ import annotations

import hashlib
import pickle
import sys
from pathlib import Path
from typing import Any, BinaryIO, cast

import torch

from adanorm.files import writing

_MARK = b"\nsha256 "
_SEAL = len(_MARK) + 64 + 1  # bytes at the end of the file; torch.load does not mind them


class BrokenError(ValueError):
    """A file that is not what was written."""


def save(path: Path, state: dict[str, Any]) -> None:
    """Write a state so that `path` holds either the old or the new one, whatever happens."""
    with writing(path) as file:
        sealed = _Hashed(file)
        torch.save(state, cast(BinaryIO, sealed))
        file.write(_MARK + sealed.digest.hexdigest().encode() + b"\n")


def load(path: Path, device: torch.device) -> dict[str, Any] | None:
    """Return the state that save wrote, on a device, or None if there is none.

    Raises BrokenError, naming the file, where it is not what was written.
    """
    if not path.exists():
        return None
    verify(path)
    try:
        state: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
    except (RuntimeError, EOFError, KeyError, pickle.UnpicklingError) as error:
        raise BrokenError(f"{path}: no checkpoint of this suite ({str(error).splitlines()[0]})") from None
    return state


def save_next(path: Path, state: dict[str, Any]) -> None:
    """Write a run's next checkpoint; the one before is kept beside it, for where this one gets broken."""
    if path.exists():
        path.replace(_before(path))
    save(path, state)


def load_latest(path: Path, device: torch.device) -> tuple[Path, dict[str, Any]] | None:
    """Return the latest checkpoint of a run that is whole, and its file; None if there is none.

    One that is broken is named in a line and removed: the one before is then taken up.
    """
    for candidate in (path, _before(path)):
        try:
            state = load(candidate, device)
        except BrokenError as error:
            remove_broken(candidate, error)
            continue
        if state is not None:
            return candidate, state
    return None


def remove_broken(path: Path, error: BrokenError) -> None:
    """Say what is wrong with a checkpoint and remove it: the run goes on from the one before, or anew."""
    print(f"warning: {error}; the run goes on from the checkpoint before or from its start", file=sys.stderr)
    path.unlink(missing_ok=True)


def _before(path: Path) -> Path:
    return path.with_name(f"{path.stem}-before{path.suffix}")


def verify(path: Path) -> None:
    """Raise BrokenError, naming the file, where its content does not have the checksum at its end."""
    left = path.stat().st_size - _SEAL
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while left > 0 and (part := file.read(min(left, 1 << 20))):
            digest.update(part)
            left -= len(part)
        seal = file.read()
    if left or seal != _MARK + digest.hexdigest().encode() + b"\n":
        raise BrokenError(f"{path}: corrupted or cut off, its content is not what its checksum says")


class _Hashed:
    """A file that is written, and the digest of what was."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.digest = file, hashlib.sha256()

    def write(self, content: bytes) -> int:
        self.digest.update(content)
        return self._file.write(content)

    def flush(self) -> None:
        self._file.flush()
