"""How long a run takes, estimated before it starts and while it trains."""

from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TypeAlias

from adanorm.config.experiment import Experiment
from adanorm.records import reader
from adanorm.records.environment import processor
from adanorm.records.result import Result
from adanorm.runs.devices import usable_devices

LONGEST_CPU_HOURS = 8.0  # a longer run needs a GPU
SecondsPerUnit: TypeAlias = Callable[[Path, str], float | None]


def on_cuda(run: Experiment) -> bool:
    """Return whether this machine would compute a run on a GPU."""
    return run.device != "cpu" and usable_devices() > 0


def needs_gpu(run: Experiment) -> bool:
    """Return whether a run takes too long without a GPU for scale=auto to choose it."""
    return run.cost.cpu_hours > LONGEST_CPU_HOURS


def seconds_left(run: Experiment, state: str, unit_seconds: SecondsPerUnit | None = None) -> float:
    """Return an estimate of the seconds that a run still takes; `unit_seconds` caches `seconds_per_unit`.

    A run in state `running` goes on at its pace so far. In other states an epoch, or an update,
    takes the median of the finished runs of the task at the scale. If there are none, the estimate
    is the hours in the configuration: of one CPU core, or of one GPU if the run needs one.
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
    unit = (unit_seconds or seconds_per_unit)(run.folder().parents[1], run.scale)
    return 3600 * hours if unit is None else unit * length


def seconds_per_unit(task: Path, scale: str) -> float | None:
    """Return the median seconds per epoch, or per update, of a task's finished runs at a scale, or None.

    If this machine's kind of processor has computed some of them, only those count.
    """
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for record in reader.records(task):
        result, is_of_scale = record.ended, record.folder.name.startswith(f"{scale}-")
        if (
            is_of_scale
            and isinstance(result, Result)
            and result.status == "done"
            and result.seconds_alone
        ):
            training = record.identity["training"]
            length = training.get("max_epochs") or training.get("max_updates") or 1
            is_same_processor = record.environment.get("device") == processor()
            seconds[is_same_processor].append(result.seconds_alone / length)
    samples = seconds[True] or seconds[False]
    return median(samples) if samples else None
