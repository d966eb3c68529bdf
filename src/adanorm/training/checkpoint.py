"""Checkpoints: plain tensors and numbers, written whole, with a checksum that is compared on reading."""

from __future__ import annotations

import hashlib
import pickle
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
