"""Weights averaged over evaluations, the last ones or the best: files in a run's folder until its end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from adanorm.config.sections import AverageConfig
from adanorm.training import checkpoint
from adanorm.training.checkpoint import BrokenError
from adanorm.training.state import SelectionMetric


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
        checkpoint.save(_file(folder, kept[-1][1]), {"model": model.state_dict()})
    if len(kept) > average.count:
        dropped = kept[0] if average.of == "last" else selection.worst(kept)
        kept.remove(dropped)


def check_kept(kept: Sequence[tuple[float, int]], folder: Path) -> None:
    """Raise BrokenError, naming the file, where weights that were kept are gone or not what was written."""
    for _, update in kept:
        if not _file(folder, update).exists():
            raise BrokenError(f"{_file(folder, update)}: is missing")
        checkpoint.verify(_file(folder, update))


def remove_kept(folder: Path, *, but: Iterable[tuple[float, int]]) -> None:
    """Remove the files of weights that are not among `but`."""
    named = {_file(folder, update) for _, update in but}
    for path in folder.glob("kept-*.pt"):
        if path not in named:
            path.unlink(missing_ok=True)


def mean_weights(kept: Sequence[tuple[float, int]], folder: Path, device: torch.device) -> dict[str, Tensor]:
    """Return the mean of the weights that were kept."""
    total: dict[str, Tensor] = {}
    for _, update in kept:
        saved = checkpoint.load(_file(folder, update), device)
        assert saved is not None, "kept weights stay until the run has ended"
        for name, weights in saved["model"].items():
            total[name] = weights if name not in total else total[name] + weights
    return {name: _share(summed, len(kept)) for name, summed in total.items()}


def _share(summed: torch.Tensor, count: int) -> torch.Tensor:
    """Return the mean of so many tensors by their sum; of booleans, whose sum is *in any of them*, that."""
    if summed.dtype == torch.bool:
        return summed
    return summed / count if summed.is_floating_point() else summed // count


def _file(folder: Path, update: int) -> Path:
    return folder / f"kept-{update}.pt"
