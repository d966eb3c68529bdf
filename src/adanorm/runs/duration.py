"""How long a run takes, before it has begun and while it is under way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from adanorm.config.experiment import Experiment
from adanorm.config.paths import DRY_RUNS
from adanorm.records import reader
from adanorm.records.result import Result
from adanorm.runs.auto_scale import LONGEST_CPU_HOURS, on_cuda
from adanorm.training.numerics import numerics_version

PARTS = ("data", "model", "training")  # of a run's settings, that say how long it takes


def needs_gpu(run: Experiment) -> bool:
    """Return whether a run takes too long without a GPU for scale=auto to choose it."""
    return run.cost.cpu_hours > LONGEST_CPU_HOURS


class Finished(NamedTuple):
    """A finished run: its settings, its seconds, whether it was computed as this code computes."""

    settings: dict[str, Any]
    seconds: float
    is_current: bool


class Durations:
    """How long runs take, by the finished ones, which are read once for all runs of a task and scale."""

    def __init__(self) -> None:
        self._finished: dict[tuple[Path, str], list[Finished]] = {}
        self._seconds: dict[tuple[tuple[Path, str], str], float | None] = {}

    def seconds_left(self, run: Experiment, state: str) -> float:
        """Return about how long a run still takes, in seconds.

        As long as finished runs of its task and scale take in the median, whatever their norm: those of
        its data, model and training, else all, each in proportion to its epochs or updates; of older
        numerics only where no other is finished. Where there is none, as long as `adanorm plan` measured
        that its updates take here; else as long as its configuration says of one CPU core, or of a GPU
        where it needs one.
        """
        if state in ("done", "diverged"):
            return 0.0
        whole = self._recorded(run) or _measured(run) or 3600 * _configured_hours(run)
        if state != "running" or not (run.folder() / "metrics.jsonl").exists():
            return whole
        try:
            rows = reader.metrics(run.folder())
        except ValueError:  # its last line is being written
            return whole
        return max(0.0, whole - rows[-1]["seconds"]) if rows else whole

    def _recorded(self, run: Experiment) -> float | None:
        """Return the seconds of a whole run by the finished ones; None without any."""
        runs, own = (run.folder().parents[1], run.scale), run.identity()
        key = runs, repr([own.get(part) for part in PARTS])
        if key not in self._seconds:
            if runs not in self._finished:
                self._finished[runs] = _finished(*runs)
            self._seconds[key] = _median_seconds(own, self._finished[runs])
        return self._seconds[key]


def _median_seconds(own: Mapping[str, Any], finished: Sequence[Finished]) -> float | None:
    """Return the median of finished runs' seconds, of those most like a run; None without any."""
    alike = [other for other in finished if all(own.get(part) == other.settings.get(part) for part in PARTS)]
    compared = alike or finished
    compared = [other for other in compared if other.is_current] or compared
    seconds = [
        other.seconds * _times_as_long(own["training"], other.settings["training"]) for other in compared
    ]
    return median(seconds) if seconds else None


def _finished(task: Path, scale: str) -> list[Finished]:
    """Return the finished runs of a scale in a task's folder."""
    found = []
    for record in reader.records(task):
        result = record.ended
        if isinstance(result, Result) and (result.scale, result.status) == (scale, "done") and result.seconds:
            current = numerics_version(result.norm)
            is_current = record.environment.get("numerics_version") == current
            found.append(Finished(record.identity, result.seconds, is_current))
    return found


def _times_as_long(training: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """Return the ratio of two runs' epochs, or updates; 1 where they do not say the same of the two."""
    for length in ("max_epochs", "max_updates"):
        if training.get(length) and other.get(length):
            return float(training[length] / other[length])
    return 1.0


def _configured_hours(run: Experiment) -> float:
    return run.cost.cuda_hours if needs_gpu(run) else run.cost.cpu_hours


def _measured(run: Experiment) -> float | None:
    """Return the seconds of a run's updates as `adanorm plan` measured them, where this device is for it."""
    updates = run.training.max_updates
    name = f"{run.task.name}-{run.scale}-*.json"
    nothing_kept = not any((DRY_RUNS / "probes").glob(name))  # which spares importing torch
    if nothing_kept or updates is None or (needs_gpu(run) and not on_cuda(run)):
        return None
    from adanorm.runs.probe import recall

    found = recall(run)
    return None if found is None else found.batch_seconds * run.training.accumulate * updates
