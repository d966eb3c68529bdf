"""Checkpoints of a run, and the weights that it averages: written whole, and checked on reading."""

from __future__ import annotations

import hashlib
import pickle
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import torch
from torch import Tensor, nn

from adanorm.config.sections import AverageConfig
from adanorm.files import writing
from adanorm.training.distributed import broadcast
from adanorm.training.state import ComputeContext, SelectionMetric

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


def keep_weights(
    model: nn.Module,
    kept: list[tuple[float, int]],
    average: AverageConfig,
    selection: SelectionMetric,
    folder: Path,
    *,
    write: bool,
) -> None:
    """Write the model's weights, and drop from `kept` those that the average is no longer over.

    `kept` holds the score and the update of each, the model's last. Their files stay for as long as a
    checkpoint may name them. Without `write`, in a process that writes no records, none is written.
    """
    if write:
        save(_kept_file(folder, kept[-1][1]), {"model": model.state_dict()})
    if len(kept) > average.count:
        dropped = kept[0] if average.of == "last" else selection.worst(kept)
        kept.remove(dropped)


def check_kept(kept: Sequence[tuple[float, int]], folder: Path) -> None:
    """Raise BrokenError, naming the file, where weights that were kept are gone or not what was written."""
    for _, update in kept:
        if not _kept_file(folder, update).exists():
            raise BrokenError(f"{_kept_file(folder, update)}: is missing")
        verify(_kept_file(folder, update))


def remove_kept(folder: Path, *, but: Iterable[tuple[float, int]]) -> None:
    """Remove the files of weights that are not among `but`."""
    named = {_kept_file(folder, update) for _, update in but}
    for path in folder.glob("kept-*.pt"):
        if path not in named:
            path.unlink(missing_ok=True)


def mean_weights(kept: Sequence[tuple[float, int]], folder: Path, device: torch.device) -> dict[str, Tensor]:
    """Return the mean of the weights that were kept."""
    total: dict[str, Tensor] = {}
    for _, update in kept:
        saved = load(_kept_file(folder, update), device)
        assert saved is not None, "kept weights stay until the run has ended"
        for name, weights in saved["model"].items():
            total[name] = weights if name not in total else total[name] + weights
    return {name: _share(summed, len(kept)) for name, summed in total.items()}


def _share(summed: torch.Tensor, count: int) -> torch.Tensor:
    """Return the mean of so many tensors by their sum; of booleans, whose sum is *in any of them*, that."""
    if summed.dtype == torch.bool:
        return summed
    return summed / count if summed.is_floating_point() else summed // count


def _kept_file(folder: Path, update: int) -> Path:
    return folder / f"kept-{update}.pt"


FORMAT = 2


class RunCheckpoints:
    """Writes and finds the checkpoints of a run; the first process writes them."""

    def __init__(self, context: ComputeContext) -> None:
        self._context = context
        self.writers: list[dict[str, Any]] = [{}]  # what computed the updates so far, this start's the last
        self._kept_before: list[tuple[float, int]] = []  # for the average, by the last checkpoint

    def write(self, path: Path, saved: dict[str, Any]) -> None:
        """Write the next checkpoint at `path`; weights that neither it nor the one before keeps go."""
        save_next(path, {"format": FORMAT, "writers": self.writers, **saved})
        kept = list(saved["state"]["kept"])
        remove_kept(path.parent, but=[*kept, *self._kept_before])
        self._kept_before = kept

    def latest(self, path: Path) -> dict[str, Any] | None:
        """Return the latest checkpoint at `path` that is whole, on every process the first one's.

        None if there is none. What is broken is named in a line and removed.
        """
        found = None
        while self._context.world.is_main and (found := load_latest(path, self._context.device)):
            file, saved = found
            try:
                if saved.get("format") != FORMAT:
                    raise BrokenError(f"{file}: written by another version of the suite")
                check_kept([(score, update) for score, update in saved["state"]["kept"]], path.parent)
                break
            except BrokenError as error:
                remove_broken(file, error)
        chosen = broadcast(found and found[0], self._context.world)
        if chosen is None:
            return None
        latest = found[1] if found is not None else load(chosen, self._context.device)
        assert latest is not None, "the first process has just read it"
        self._kept_before = list(latest["state"]["kept"])
        before = latest.get("writers", [{}])
        self.writers = before if before[-1:] == self.writers else [*before, *self.writers]
        return latest
