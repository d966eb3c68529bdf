"""The best weights of a run, in safetensors: a file that holds tensors and text, and no code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
from torch import Tensor

from adanorm.files import write_whole
from adanorm.training.checkpoint import BrokenError

KEY = "adanorm"  # of the header's metadata: one key, whose order is then no matter of chance

_UNREADABLE = safetensors.SafetensorError, ValueError, LookupError, TypeError, AttributeError, RecursionError


def save(path: Path, weights: Mapping[str, Tensor], run: str) -> None:
    """Write weights, with the digest of their run and a checksum in the header."""
    tensors = {name: tensor.contiguous() for name, tensor in weights.items()}
    written = json.dumps({"run": run, "sha256": _checksum(safetensors.torch.save(tensors))})
    write_whole(path, safetensors.torch.save(tensors, {KEY: written}))


def load(path: Path, run: str) -> dict[str, Tensor]:
    """Return the weights of a run, on the CPU.

    Raises BrokenError, naming the file, where it is not what was written, or is of another run.
    """
    content = path.read_bytes()
    try:
        written = json.loads(_header(content)["__metadata__"][KEY])
        is_whole = written["sha256"] == _checksum(content)
        of, weights = written["run"], safetensors.torch.load(content)
    except _UNREADABLE as error:
        raise BrokenError(f"{path}: no weights of this suite ({str(error).splitlines()[0]})") from None
    if not is_whole:
        raise BrokenError(f"{path}: corrupted, its content is not what its checksum says")
    if of != run:
        raise BrokenError(f"{path}: of the run {of}, not of {run}")
    return weights


def _header(content: bytes) -> dict[str, dict[str, str]]:
    return json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])  # type: ignore[no-any-return]


def _checksum(content: bytes) -> str:
    """Return the SHA-256 of what a file says of its tensors, and of their values."""
    described = {name: entry for name, entry in _header(content).items() if name != "__metadata__"}
    digest = hashlib.sha256(json.dumps(described, sort_keys=True).encode())
    digest.update(content[8 + int.from_bytes(content[:8], "little") :])
    return digest.hexdigest()
