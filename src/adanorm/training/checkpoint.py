"""Checkpoints of a run, what it averages, its best weights: written whole, and checked on reading."""

import hashlib
import json
import pickle
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import safetensors.torch
import torch
from torch import Tensor, nn

from adanorm.files import write_whole, writing
from adanorm.training.distributed import broadcast
from adanorm.training.state import ComputeContext

FORMAT = 2
_MARK = b"\nsha256 "
_SEAL = len(_MARK) + 64 + 1  # bytes at the end of the file; torch.load does not mind them
KEY = "adanorm"  # of the header's metadata: one key, whose order is then no matter of chance

_UNREADABLE = safetensors.SafetensorError, ValueError, LookupError, TypeError, AttributeError, RecursionError


class BrokenError(ValueError):
    """A file that is not what was written."""


def save(path: Path, state: dict[str, Any]) -> None:
    """Write a state so that `path` holds either the old or the new one, whatever happens."""
    with writing(path) as file:
        try:
            torch.save(state, file)
        except RuntimeError as error:  # of closing a file that could not be written
            raise error.__context__ if isinstance(error.__context__, OSError) else error from None
        size = file.tell()
        file.seek(0)
        file.write(_seal(file, size))


def load(path: Path, device: torch.device) -> dict[str, Any] | None:
    """Return the state that save wrote, on a device; None without a file, BrokenError for a broken one."""
    if not path.exists():
        return None
    verify(path)
    try:
        return dict(torch.load(path, map_location=device, weights_only=True))
    except (RuntimeError, EOFError, KeyError, pickle.UnpicklingError) as error:
        raise BrokenError(f"{path}: no checkpoint of this suite ({str(error).splitlines()[0]})") from None


def verify(path: Path) -> None:
    """Raise BrokenError, naming the file, where its content does not have the checksum at its end."""
    size = path.stat().st_size - _SEAL
    with path.open("rb") as file:
        if size < 0 or _seal(file, size) != file.read():
            raise BrokenError(f"{path}: corrupted or cut off, its content is not what its checksum says")


def _seal(file: BinaryIO, size: int) -> bytes:
    """Return what belongs behind the first `size` bytes of a file: their checksum."""
    digest = hashlib.sha256()
    while size and (part := file.read(min(size, 1 << 20))):
        digest.update(part)
        size -= len(part)
    return _MARK + digest.hexdigest().encode() + b"\n"


def keep_weights(model: nn.Module, update: int, folder: Path) -> None:
    """Write the model's weights for the average; the file stays for as long as a checkpoint may name it."""
    save(_kept_file(folder, update), {"model": model.state_dict()})


def mean_weights(kept: Sequence[tuple[float, int]], folder: Path, device: torch.device) -> dict[str, Tensor]:
    """Return the mean of the weights that were kept; of booleans, what was true in any of them."""
    total: dict[str, Tensor] = {}
    for _, update in kept:
        saved = load(_kept_file(folder, update), device)
        assert saved is not None, "kept weights stay until the run has ended"
        for name, weights in saved["model"].items():
            total[name] = weights if name not in total else total[name] + weights
    return {
        name: t if t.dtype == torch.bool else t / len(kept) if t.is_floating_point() else t // len(kept)
        for name, t in total.items()
    }


def _kept_file(folder: Path, update: int) -> Path:
    return folder / f"kept-{update}.pt"


class RunCheckpoints:
    """Writes and finds the checkpoints of a run, the latest and the one before; the first process writes."""

    def __init__(self, context: ComputeContext) -> None:
        self._context = context
        self.writers: list[dict[str, Any]] = [{}]  # what computed the updates so far, this start's the last
        self._kept_before: list[tuple[float, int]] = []  # for the average, by the last checkpoint

    def write(self, path: Path, saved: dict[str, Any]) -> None:
        """Write the next checkpoint at `path`; weights that neither it nor the one before keeps go."""
        if path.exists():
            path.replace(_before(path))
        save(path, {"format": FORMAT, "run": path.parent.name, "writers": self.writers, **saved})
        kept = list(saved["state"]["kept"])
        named = {_kept_file(path.parent, update) for _, update in [*kept, *self._kept_before]}
        for file in {*path.parent.glob("kept-*.pt")} - named:
            file.unlink(missing_ok=True)
        self._kept_before = kept

    def latest(self, path: Path) -> dict[str, Any] | None:
        """Return the latest whole checkpoint, the first process's, or None; removes broken ones."""
        world, device, latest, chosen = self._context.world, self._context.device, None, None
        for file in (path, _before(path)) if world.is_main else ():
            try:
                if (latest := _load_with_kept(file, device)) is not None:
                    chosen = file
                    break
            except BrokenError as error:
                remedy = "the run goes on from the checkpoint before or from its start"
                print(f"warning: {error}; {remedy}", file=sys.stderr)
                file.unlink(missing_ok=True)
        if (chosen := broadcast(chosen, world)) is None:
            return None
        latest = load(chosen, device) if latest is None else latest
        assert latest is not None, "the first process has just read it"
        self._kept_before = list(latest["state"]["kept"])
        before = latest.get("writers", [{}])
        self.writers = before if before[-1:] == self.writers else [*before, *self.writers]
        return latest


def _before(path: Path) -> Path:
    return path.with_name(f"{path.stem}-before{path.suffix}")


def _load_with_kept(path: Path, device: torch.device) -> dict[str, Any] | None:
    """Return a run's checkpoint; None without one, BrokenError where it or weights it names are broken."""
    saved = load(path, device)
    if saved is None:
        return None
    if saved.get("format") != FORMAT:
        raise BrokenError(f"{path}: written by another version of the suite")
    if (of := saved.get("run", path.parent.name)) != path.parent.name:  # which has the run's digest
        raise BrokenError(f"{path}: of the run {of}")
    for _, update in saved["state"]["kept"]:
        kept = _kept_file(path.parent, update)
        if not kept.exists():
            raise BrokenError(f"{kept}: is missing")
        verify(kept)
    return saved


def save_weights(path: Path, weights: Mapping[str, Tensor], run: str) -> None:
    """Write a run's best weights with its digest and a checksum, in safetensors, which holds no code."""
    tensors = {name: tensor.contiguous() for name, tensor in weights.items()}
    written = json.dumps({"run": run, "sha256": _checksum(safetensors.torch.save(tensors))})
    write_whole(path, safetensors.torch.save(tensors, {KEY: written}))


def load_weights(path: Path, run: str) -> dict[str, Tensor]:
    """Return a run's weights, on the CPU; raises BrokenError for a broken file and for another run's."""
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
