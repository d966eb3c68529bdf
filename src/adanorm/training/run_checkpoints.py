"""The checkpoints of a run: the last one and the one before, with the weights that they keep to average."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from adanorm.training import checkpoint
from adanorm.training.averaging import check_kept, remove_kept
from adanorm.training.checkpoint import BrokenError
from adanorm.training.distributed import broadcast
from adanorm.training.state import ComputeContext

FORMAT = 2


class RunCheckpoints:
    """Writes and finds the checkpoints of a run; the first process writes them."""

    def __init__(self, context: ComputeContext) -> None:
        self._context = context
        self._kept_before: list[tuple[float, int]] = []  # for the average, by the last checkpoint

    def write(self, path: Path, saved: dict[str, Any]) -> None:
        """Write the next checkpoint at `path`; weights that neither it nor the one before keeps go."""
        checkpoint.save_next(path, {"format": FORMAT, **saved})
        kept = list(saved["state"]["kept"])
        remove_kept(path.parent, but=[*kept, *self._kept_before])
        self._kept_before = kept

    def latest(self, path: Path) -> dict[str, Any] | None:
        """Return the latest checkpoint at `path` that is whole, on every process the first one's.

        None if there is none. What is broken is named in a line and removed.
        """
        found = None
        while self._context.world.is_main and (found := checkpoint.load_latest(path, self._context.device)):
            file, saved = found
            try:
                if saved.get("format") != FORMAT:
                    raise BrokenError(f"{file}: written by another version of the suite")
                check_kept([(score, update) for score, update in saved["state"]["kept"]], path.parent)
                break
            except BrokenError as error:
                checkpoint.remove_broken(file, error)
        chosen = broadcast(found and found[0], self._context.world)
        if chosen is None:
            return None
        latest = found[1] if found is not None else checkpoint.load(chosen, self._context.device)
        assert latest is not None, "the first process has just read it"
        self._kept_before = list(latest["state"]["kept"])
        return latest
