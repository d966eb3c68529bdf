"""How long a run takes, before it has begun and while it is under way."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from statistics import median

from adanorm.config.experiment import Experiment
from adanorm.records import reader
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


class Durations:
    """How long runs take, by the finished ones, which are read once for all runs of a task and scale."""

    def __init__(self) -> None:
        self._finished = cache(_seconds_of_a_unit)

    def seconds_left(self, run: Experiment, state: str) -> float:
        """Return about how long a run still takes, in seconds.

        An epoch, or an update, takes what it took in the median of the finished runs of its task and scale.
        Where there are none, a run takes as long as its configuration says of one CPU core, or of a GPU where
        it needs one.
        """
        if state in ("done", "diverged"):
            return 0.0
        hours = run.cost.cuda_hours if needs_gpu(run) else run.cost.cpu_hours
        unit = self._finished(run.folder().parents[1], run.scale)
        length = run.training.max_epochs or run.training.max_updates or 1
        whole = 3600 * hours if unit is None else unit * length
        if state != "running":
            return whole
        try:
            rows = reader.metrics(run.folder())
        except ValueError:  # its last line is being written
            return whole
        return max(0.0, whole - rows[-1]["seconds"]) if rows else whole


def _seconds_of_a_unit(task: Path, scale: str) -> float | None:
    """Return the median seconds of an epoch, or an update, of the finished runs of a scale, None without."""
    seconds = []
    for record in reader.records(task):
        if not record.folder.name.startswith(f"{scale}-"):
            continue
        if isinstance(result := record.ended, Result) and result.status == "done" and result.seconds:
            settings = record.text("config.yaml")
            lengths = dict(re.findall(r"^ +(max_epochs|max_updates): (\d+)$", settings, re.M))
            length = lengths.get("max_epochs") or lengths.get("max_updates") or 1
            seconds.append(result.seconds / int(length))
    return median(seconds) if seconds else None
