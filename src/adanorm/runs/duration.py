"""How long a run takes, before it has begun and while it is under way."""

from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TypeAlias

from adanorm.config.experiment import Experiment
from adanorm.records import reader
from adanorm.records.environment import processor
from adanorm.records.result import Result
from adanorm.runs.devices import usable_devices

LONGEST_CPU_HOURS = 8.0  # what takes longer waits for a GPU
SecondsOfAUnit: TypeAlias = Callable[[Path, str], float | None]


def on_cuda(run: Experiment) -> bool:
    """Return whether a run would be computed on a GPU here."""
    return run.device != "cpu" and usable_devices() > 0


def needs_gpu(run: Experiment) -> bool:
    """Return whether a run takes too long without a GPU for scale=auto to choose it."""
    return run.cost.cpu_hours > LONGEST_CPU_HOURS


def seconds_left(run: Experiment, state: str, of_a_unit: SecondsOfAUnit | None = None) -> float:
    """Return about how long a run still takes, in seconds; `of_a_unit` may be `seconds_of_a_unit`, cached.

    A running one goes on as it has gone so far. Else an epoch, or an update, takes what it took in the
    median of the finished runs of its task and scale. Where there are none, a run takes as long as its
    configuration says of one CPU core, or of a GPU where it needs one.
    """
    if state in ("done", "diverged"):
        return 0.0
    key = "epoch" if run.training.max_epochs else "update"
    length = run.training.max_epochs or run.training.max_updates or 1
    try:
        rows = reader.record(run.folder()).rows() if state == "running" else []
    except ValueError:  # its last line is being written
        rows = []
    if rows and (so_far := rows[-1].get(key)):
        return float(rows[-1]["seconds"] / so_far * max(0.0, length - so_far))
    hours = run.cost.cuda_hours if needs_gpu(run) else run.cost.cpu_hours
    unit = (of_a_unit or seconds_of_a_unit)(run.folder().parents[1], run.scale)
    return 3600 * hours if unit is None else unit * length


def seconds_of_a_unit(task: Path, scale: str) -> float | None:
    """Return the median seconds of an epoch, or an update, of a task's finished runs at a scale, or None.

    Where a processor of this machine's kind has computed some of them, those alone count.
    """
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for record in reader.records(task):
        result = record.ended
        if not record.folder.name.startswith(f"{scale}-") or not isinstance(result, Result):
            continue
        if result.status == "done" and result.seconds_alone:
            training = record.identity["training"]
            length = training.get("max_epochs") or training.get("max_updates") or 1
            is_of_here = record.environment.get("device") == processor()
            seconds[is_of_here].append(result.seconds_alone / length)
    known = seconds[True] or seconds[False]
    return median(known) if known else None
