"""Files of tensors: checkpoints, weights to average, best weights. They are checked when they are read."""

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
    """Write a state, with a checksum; whatever happens, `path` holds either the old or the new state."""
    with writing(path) as file:
        try:
            torch.save(state, file)
        except RuntimeError as error:  # torch raises it on closing a file that it could not write
            raise error.__context__ if isinstance(error.__context__, OSError) else error from None
        size = file.tell()
        file.seek(0)
        file.write(_seal(file, size))


def load(path: Path, device: torch.device) -> dict[str, Any] | None:
    """Return the state that `save` wrote, on a device; None without a file, BrokenError for a broken one."""
    if not path.exists():
        return None
    verify(path)
    try:
        return dict(torch.load(path, map_location=device, weights_only=True))
    except (RuntimeError, EOFError, KeyError, pickle.UnpicklingError) as error:
        raise BrokenError(
            f"{path}: not a checkpoint of this suite ({str(error).splitlines()[0]})"
        ) from None


def verify(path: Path) -> None:
    """Raise BrokenError, naming the file, if its content does not fit the checksum at its end."""
    size = path.stat().st_size - _SEAL
    with path.open("rb") as file:
        if size < 0 or _seal(file, size) != file.read():
            raise BrokenError(
                f"{path}: corrupted or cut off, its content is not what its checksum says"
            )


def _seal(file: BinaryIO, size: int) -> bytes:
    """Return the bytes that end a file: the checksum of its first `size` bytes."""
    digest = hashlib.sha256()
    while size and (part := file.read(min(size, 1 << 20))):
        digest.update(part)
        size -= len(part)
    return _MARK + digest.hexdigest().encode() + b"\n"


def keep_weights(model: nn.Module, update: int, folder: Path) -> None:
    """Write the model's weights for the average; the file stays while a checkpoint names it."""
    save(_weights_file(folder, update), {"model": model.state_dict()})


def mean_weights(
    kept: Sequence[tuple[float, int]], folder: Path, device: torch.device
) -> dict[str, Tensor]:
    """Return the mean of the weights `kept` at (score, update); a boolean is true if it is in any of them."""
    total: dict[str, Tensor] = {}
    for _, update in kept:
        saved = load(_weights_file(folder, update), device)
        assert saved is not None, "kept weights stay until the run has ended"
        for name, weights in saved["model"].items():
            total[name] = weights if name not in total else total[name] + weights
    return {
        name: t
        if t.dtype == torch.bool
        else t / len(kept)
        if t.is_floating_point()
        else t // len(kept)
        for name, t in total.items()
    }


def _weights_file(folder: Path, update: int) -> Path:
    return folder / f"kept-{update}.pt"


class RunCheckpoints:
    """Writes and reads the latest two checkpoints of a run; only the first process writes."""

    def __init__(self, context: ComputeContext) -> None:
        self._context = context
        self.writers: list[dict[str, Any]] = [
            {}
        ]  # what computed each start so far; the last is this start's
        self._previous: list[
            tuple[float, int]
        ] = []  # evaluations to average, in the last checkpoint

    def write(self, path: Path, saved: dict[str, Any]) -> None:
        """Write the next checkpoint at `path`; remove weights that neither it nor the previous one names."""
        if path.exists():
            path.replace(_previous_path(path))
        save(path, {"format": FORMAT, "run": path.parent.name, "writers": self.writers, **saved})
        to_average = list(saved["state"]["kept"])
        files = {_weights_file(path.parent, update) for _, update in [*to_average, *self._previous]}
        for file in {*path.parent.glob("kept-*.pt")} - files:
            file.unlink(missing_ok=True)
        self._previous = to_average

    def latest(self, path: Path) -> dict[str, Any] | None:
        """Return the latest whole checkpoint that the first process finds, or None; remove broken ones."""
        world, device, latest, source = self._context.world, self._context.device, None, None
        for file in (path, _previous_path(path)) if world.is_main else ():
            try:
                if (latest := _load_checked(file, device)) is not None:
                    source = file
                    break
            except BrokenError as error:
                remedy = "the run goes on from the checkpoint before or from its start"
                print(f"warning: {error}; {remedy}", file=sys.stderr)
                file.unlink(missing_ok=True)
        if (source := broadcast(source, world)) is None:
            return None
        latest = load(source, device) if latest is None else latest
        assert latest is not None, "the first process has just read it"
        self._previous = list(latest["state"]["kept"])
        writers = latest.get("writers", [{}])
        self.writers = writers if writers[-1:] == self.writers else [*writers, *self.writers]
        return latest


def _previous_path(path: Path) -> Path:
    return path.with_name(f"{path.stem}-before{path.suffix}")


def _load_checked(path: Path, device: torch.device) -> dict[str, Any] | None:
    """Return a run's checkpoint; None without one, BrokenError if it or weights that it names are broken."""
    saved = load(path, device)
    if saved is None:
        return None
    if saved.get("format") != FORMAT:
        raise BrokenError(f"{path}: written by another version of the suite")
    if (
        run := saved.get("run", path.parent.name)
    ) != path.parent.name:  # its name has the run's digest
        raise BrokenError(f"{path}: of the run {run}")
    for _, update in saved["state"]["kept"]:
        file = _weights_file(path.parent, update)
        if not file.exists():
            raise BrokenError(f"{file}: is missing")
        verify(file)
    return saved


def save_weights(path: Path, weights: Mapping[str, Tensor], run: str) -> None:
    """Write a run's best weights with its digest and a checksum; the format, safetensors, holds no code."""
    tensors = {name: tensor.contiguous() for name, tensor in weights.items()}
    label = json.dumps({"run": run, "sha256": _checksum(safetensors.torch.save(tensors))})
    write_whole(path, safetensors.torch.save(tensors, {KEY: label}))


def load_weights(path: Path, run: str) -> dict[str, Tensor]:
    """Return a run's weights on the CPU; raises BrokenError if the file is broken or another run's."""
    content = path.read_bytes()
    try:
        label = json.loads(_header(content)["__metadata__"][KEY])
        is_whole = label["sha256"] == _checksum(content)
        owner, weights = label["run"], safetensors.torch.load(content)
    except _UNREADABLE as error:
        raise BrokenError(
            f"{path}: not weights of this suite ({str(error).splitlines()[0]})"
        ) from None
    if not is_whole:
        raise BrokenError(f"{path}: corrupted, its content is not what its checksum says")
    if owner != run:
        raise BrokenError(f"{path}: of the run {owner}, not of {run}")
    return weights


def _header(content: bytes) -> dict[str, dict[str, str]]:
    return json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])


def _checksum(content: bytes) -> str:
    """Return the SHA-256 of a safetensors file's tensors: of their entries in the header and their values."""
    entries = {name: entry for name, entry in _header(content).items() if name != "__metadata__"}
    digest = hashlib.sha256(json.dumps(entries, sort_keys=True).encode())
    digest.update(content[8 + int.from_bytes(content[:8], "little") :])
    return digest.hexdigest()
