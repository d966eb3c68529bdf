"""How long a run takes, estimated before it starts and while it trains."""

import re
from contextlib import suppress
from pathlib import Path
from statistics import median

from adanorm.config.experiment import Experiment
from adanorm.records import reader
from adanorm.records.environment import processor, usable_devices
from adanorm.records.lines import once
from adanorm.records.result import Result

# In config.yaml the epochs of a run, or else its updates, come first.
LENGTH = re.compile(r"^  max_(?:epochs|updates): (\d+)$", re.MULTILINE)


def on_cuda(run: Experiment) -> bool:
    """Return whether this machine would compute a run on a GPU."""
    return run.device != "cpu" and usable_devices() > 0


def seconds_left(run: Experiment, state: str) -> float:
    """Return an estimate of the seconds that a run still takes.

    A run in state `running` goes on at its pace so far. In other states an epoch, or an update,
    takes the median of the finished runs of the task at the scale. If there are none, the estimate
    is the hours in the configuration: of one CPU core, or of one GPU if the run needs one.
    """
    if state in ("done", "diverged"):
        return 0.0
    key = "epoch" if run.training.max_epochs else "update"
    length = run.training.max_epochs or run.training.max_updates or 1
    rows = []
    if state == "running":
        with suppress(ValueError):  # its last line is being written
            rows = reader.record(run.folder()).rows()
    if rows and rows[-1].get(key):
        unit_here = rows[-1]["seconds"] / rows[-1][key]
        return float(unit_here * max(0.0, length - rows[-1][key]))
    unit = _seconds_per_unit(run.folder().parents[1], run.scale)
    if unit is not None:
        return unit * length
    hours = run.gpu_hours if run.cost.needs_gpu else run.cost.cpu_hours
    return 3600 * hours


@once
def _seconds_per_unit(task: Path, scale: str) -> float | None:
    """Return the median seconds per epoch, or update, of a task's finished runs at a scale.

    If this machine's kind of processor has computed some of them, only those count.
    """
    here: list[float] = []
    elsewhere: list[float] = []
    for record in reader.records(task):
        if not record.folder.name.startswith(f"{scale}-"):
            continue
        result = record.ended
        if not isinstance(result, Result) or result.status != "done" or not result.seconds_alone:
            continue
        # Only these lines are read: parsing the YAML of every record would take a second.
        length = LENGTH.search(record.text("config.yaml"))
        units = int(length[1]) if length else 1
        is_here = record.environment.get("device") == processor()
        (here if is_here else elsewhere).append(result.seconds_alone / units)
    samples = here or elsewhere
    return median(samples) if samples else None
