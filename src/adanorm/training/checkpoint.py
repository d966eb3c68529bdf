"""Files of tensors: checkpoints, weights to average, best weights; checked when they are read."""

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
KEY = "adanorm"  # in the header's metadata: with one key alone, no order of keys is left to chance

_UNREADABLE = (
    safetensors.SafetensorError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
)


class BrokenError(ValueError):
    """A file whose content is not what the suite wrote."""


def save(path: Path, state: dict[str, Any]) -> None:
    """Write a state with a checksum; whatever happens, `path` holds the old or the new state."""
    with writing(path) as file:
        try:
            torch.save(state, file)
        except RuntimeError as error:  # torch raises it on closing a file that it could not write
            raise error.__context__ if isinstance(error.__context__, OSError) else error from None
        size = file.tell()
        file.seek(0)
        file.write(_seal(file, size))


def load(path: Path, device: torch.device) -> dict[str, Any] | None:
    """Return the state that `save` wrote, None without a file; BrokenError if it is broken."""
    if not path.exists():
        return None
    verify(path)
    try:
        return dict(
            torch.load(
                path,
                map_location=device,
                weights_only=True,
            )
        )
    except (RuntimeError, EOFError, KeyError, pickle.UnpicklingError) as error:
        reason = str(error).splitlines()[0]
        raise BrokenError(f"{path}: not a checkpoint of this suite ({reason})") from None


def verify(path: Path) -> None:
    """Raise BrokenError, naming the file, if its content does not fit the checksum at its end."""
    size = path.stat().st_size - _SEAL
    with path.open("rb") as file:
        if size < 0 or _seal(file, size) != file.read():
            problem = "corrupted or cut off, its content is not what its checksum says"
            raise BrokenError(f"{path}: {problem}")


def _seal(file: BinaryIO, size: int) -> bytes:
    """Return the bytes that end a file: the checksum of its first `size` bytes."""
    digest = hashlib.sha256()
    while size:
        part = file.read(min(size, 1 << 20))
        digest.update(part)
        size -= len(part)
    return _MARK + digest.hexdigest().encode() + b"\n"


def keep_weights(model: nn.Module, update: int, folder: Path) -> None:
    """Write the model's weights for the average; the file stays while a checkpoint names it."""
    save(_weights_file(folder, update), {"model": model.state_dict()})


def mean_weights(
    kept: Sequence[tuple[float, int]], folder: Path, device: torch.device
) -> dict[str, Tensor]:
    """Return the mean of the weights `kept` at (score, update); a boolean is true if any is."""
    total: dict[str, Tensor] = {}
    for _, update in kept:
        saved = load(_weights_file(folder, update), device)
        assert saved is not None, "kept weights stay until the run has ended"
        for name, weights in saved["model"].items():
            total[name] = weights if name not in total else total[name] + weights
    for name, weights in total.items():
        if weights.is_floating_point():
            total[name] = weights / len(kept)
        elif weights.dtype != torch.bool:
            total[name] = weights // len(kept)
    return total


def _weights_file(folder: Path, update: int) -> Path:
    return folder / f"kept-{update}.pt"


class RunCheckpoints:
    """Writes and reads the latest two checkpoints of a run; only the first process writes."""

    def __init__(self, context: ComputeContext) -> None:
        self._context = context
        # What computed each start so far; the last is this start's.
        self.writers: list[dict[str, Any]] = [{}]
        self._previous: list[
            tuple[float, int]
        ] = []  # evaluations to average, in the last checkpoint

    def write(self, path: Path, saved: dict[str, Any]) -> None:
        """Write the next checkpoint; remove weights that neither it nor the previous one names."""
        if path.exists():
            path.replace(_previous_path(path))
        folder = path.parent
        save(path, {"format": FORMAT, "run": folder.name, "writers": self.writers, **saved})
        to_average = list(saved["state"]["kept"])
        named = [_weights_file(folder, update) for _, update in [*to_average, *self._previous]]
        for file in folder.glob("kept-*.pt"):
            if file not in named:
                file.unlink(missing_ok=True)
        self._previous = to_average

    def latest(self, path: Path) -> dict[str, Any] | None:
        """Return the latest whole checkpoint or None; the first process finds it."""
        device, world = self._context.device, self._context.world
        latest, source = None, None
        if world.is_main:
            latest, source = _latest_whole(path, device)
        source = broadcast(source, world)
        if source is None:
            return None
        if latest is None:
            latest = load(source, device)
        assert latest is not None, "the first process has just read it"
        self._previous = list(latest["state"]["kept"])
        writers = latest.get("writers", [{}])
        if writers[-1:] == self.writers:
            self.writers = writers
        else:
            self.writers = [*writers, *self.writers]
        return latest


def _latest_whole(path: Path, device: torch.device) -> tuple[dict[str, Any] | None, Path | None]:
    """Return the checkpoint at `path` or the previous one, and its file; remove broken ones."""
    for file in (path, _previous_path(path)):
        try:
            saved = _load_checked(file, device)
        except BrokenError as error:
            remedy = "the run goes on from the checkpoint before or from its start"
            print(f"warning: {error}; {remedy}", file=sys.stderr)
            file.unlink(missing_ok=True)
            continue
        if saved is not None:
            return saved, file
    return None, None


def _previous_path(path: Path) -> Path:
    return path.with_name(f"{path.stem}-before{path.suffix}")


def _load_checked(path: Path, device: torch.device) -> dict[str, Any] | None:
    """Return a run's checkpoint, None without one; BrokenError for it or weights that it names."""
    saved = load(path, device)
    if saved is None:
        return None
    if saved.get("format") != FORMAT:
        raise BrokenError(f"{path}: written by another version of the suite")
    folder = path.parent.name  # has the run's digest
    run = saved.get("run", folder)
    if run != folder:
        raise BrokenError(f"{path}: of the run {run}")
    for _, update in saved["state"]["kept"]:
        file = _weights_file(path.parent, update)
        if not file.exists():
            raise BrokenError(f"{file}: is missing")
        verify(file)
    return saved


def save_weights(path: Path, weights: Mapping[str, Tensor], run: str) -> None:
    """Write a run's best weights, its digest and a checksum as safetensors, which hold no code."""
    tensors = {name: tensor.contiguous() for name, tensor in weights.items()}
    label = json.dumps({"run": run, "sha256": _checksum(safetensors.torch.save(tensors))})
    write_whole(path, safetensors.torch.save(tensors, {KEY: label}))


def load_weights(path: Path, run: str) -> dict[str, Tensor]:
    """Return a run's weights on the CPU; BrokenError if the file is broken or another run's."""
    content = path.read_bytes()
    try:
        label = json.loads(_header(content)["__metadata__"][KEY])
        is_whole = label["sha256"] == _checksum(content)
        owner, weights = label["run"], safetensors.torch.load(content)
    except _UNREADABLE as error:
        reason = str(error).splitlines()[0]
        raise BrokenError(f"{path}: not weights of this suite ({reason})") from None
    if not is_whole:
        raise BrokenError(f"{path}: corrupted, its content is not what its checksum says")
    if owner != run:
        raise BrokenError(f"{path}: of the run {owner}, not of {run}")
    return weights


def _header(content: bytes) -> dict[str, dict[str, str]]:
    return json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])


def _checksum(content: bytes) -> str:
    """Return the SHA-256 of a safetensors file's tensors: the header's entries and the values."""
    entries = {name: entry for name, entry in _header(content).items() if name != "__metadata__"}
    digest = hashlib.sha256(json.dumps(entries, sort_keys=True).encode())
    digest.update(content[8 + int.from_bytes(content[:8], "little") :])
    return digest.hexdigest()
