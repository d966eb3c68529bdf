"""How long a run takes, before it has begun and while it is under way."""

from __future__ import annotations

import json
import platform
import re
from contextlib import suppress
from functools import cache
from pathlib import Path
from statistics import median
from typing import NamedTuple

from adanorm.config.experiment import Experiment
from adanorm.config.paths import DRY_RUNS
from adanorm.records import reader
from adanorm.records.environment import numerics_version
from adanorm.records.result import Result

LONGEST_CPU_HOURS = 8.0  # what takes longer waits for a GPU


def in_words(hours: float) -> str:
    """Return hours as minutes below two of them and as days from a hundred on."""
    if hours < 2:
        return f"{max(1, round(60 * hours))} min"
    return f"{hours:.0f} hours" if hours < 100 else f"{hours / 24:,.0f} days"


def on_cuda(run: Experiment) -> bool:
    """Return whether a run would be computed on a GPU here."""
    if run.device == "cpu":
        return False
    import torch

    return torch.cuda.is_available()


def needs_gpu(run: Experiment) -> bool:
    """Return whether a run takes too long without a GPU for scale=auto to choose it."""
    return run.cost.cpu_hours > LONGEST_CPU_HOURS


class Probe(NamedTuple):
    """What a batch costs here: seconds, its share of a step included; memory in bytes."""

    batch_seconds: float
    peak_memory: int
    parameters: int


def probe_path(run: Experiment) -> Path:
    """Return where this machine keeps the probe of a task: norms differ by less than what it is for."""
    device = "cuda" if on_cuda(run) else "cpu"
    parts = (run.task.name, run.scale, run.precision, str(run.threads), device, platform.node())
    return DRY_RUNS / "probes" / f"{'-'.join(parts)}.json"


def recall(run: Experiment) -> Probe | None:
    """Return what `adanorm plan` measured here of a run of this task, model and precision, or None."""
    if not any((DRY_RUNS / "probes").glob(f"{run.task.name}-{run.scale}-*")):  # which spares importing torch
        return None
    with suppress(OSError, ValueError, TypeError):
        return Probe(**json.loads(probe_path(run).read_text("utf-8")))
    return None


class Durations:
    """How long runs take, by the finished ones, which are read once for all runs of a task and scale."""

    def __init__(self) -> None:
        self._of_scale = cache(_finished_of_scale)

    def seconds_left(self, run: Experiment, state: str) -> float:
        """Return about how long a run still takes, in seconds.

        As long as its finished seeds take in the median; without one, as long as all finished runs of its
        task and scale, each in proportion to its epochs or updates; of older numerics only where no other
        is finished. Where there is none, as long as `adanorm plan` measured that its updates take here; else
        as long as its configuration says of one CPU core, or of a GPU where it needs one.
        """
        if state in ("done", "diverged"):
            return 0.0
        hours = run.cost.cuda_hours if needs_gpu(run) else run.cost.cpu_hours
        whole = self._recorded(run) or _measured(run) or 3600 * hours
        if state != "running":
            return whole
        try:
            rows = reader.metrics(run.folder())
        except ValueError:  # its last line is being written
            return whole
        return max(0.0, whole - rows[-1]["seconds"]) if rows else whole

    def _recorded(self, run: Experiment) -> float | None:
        siblings = (_finished(other.folder()) for other in reader.runs_on_record(run))
        if seconds := [one for one in siblings if one is not None]:
            return _median(seconds)
        length = run.training.max_epochs or run.training.max_updates or 1
        every = self._of_scale(run.folder().parents[1], run.scale)
        return _median([one._replace(seconds=one.seconds * length / one.length) for one in every])


class Finished(NamedTuple):
    """What a finished run took: seconds, of so many epochs, or updates; by this code's numerics or older."""

    seconds: float
    length: int
    is_current: bool


def _finished_of_scale(task: Path, scale: str) -> list[Finished]:
    runs = (record.folder for record in reader.records(task) if record.folder.name.startswith(f"{scale}-"))
    return [one for one in map(_finished, runs) if one is not None]


def _finished(folder: Path) -> Finished | None:
    """Return what a run took, None where it is not done."""
    record = reader.record(folder)
    if not isinstance(result := record.ended, Result) or result.status != "done" or not result.seconds:
        return None
    lengths = dict(re.findall(r"^ +(max_epochs|max_updates): (\d+)$", record.text("config.yaml"), re.M))
    length = int(lengths.get("max_epochs") or lengths.get("max_updates") or 1)
    is_current = record.environment.get("numerics_version") == numerics_version(result.norm)
    return Finished(result.seconds, length, is_current)


def _median(finished: list[Finished]) -> float | None:
    counted = [one for one in finished if one.is_current] or finished
    return median(one.seconds for one in counted) if counted else None


def _measured(run: Experiment) -> float | None:
    """Return the seconds of a run's updates as measured here, where this device is for it."""
    updates, probe = run.training.max_updates, recall(run)
    if probe is None or updates is None or (needs_gpu(run) and not on_cuda(run)):
        return None
    return probe.batch_seconds * run.training.accumulate * updates
