"""How long a run takes, before it has begun and while it is under way."""

from __future__ import annotations

from statistics import median

from adanorm.config.experiment import Experiment
from adanorm.config.paths import DRY_RUNS
from adanorm.records import reader
from adanorm.runs.auto_scale import LONGEST_CPU_HOURS, on_cuda


def needs_gpu(run: Experiment) -> bool:
    """Return whether a run takes too long without a GPU for scale=auto to choose it."""
    return run.cost.cpu_hours > LONGEST_CPU_HOURS


def seconds_left(run: Experiment, state: str) -> float:
    """Return about how long a run still takes, in seconds.

    As long as a finished run of its task and scale takes, in the median, whatever its norm and
    settings; where there is none, as long as `adanorm plan` measured that its updates take here; else
    as long as its configuration says of one CPU core, or of a GPU where it needs one.
    """
    if state in ("done", "diverged"):
        return 0.0
    finished = [
        result.seconds
        for path in run.folder().parents[1].glob(f"*/{run.scale}-seed*/result.json")
        if (result := reader.result(path.parent)) is not None
        and result.status == "done"
        and result.seconds is not None
    ]
    whole = median(finished) if finished else _measured(run) or 3600 * _configured_hours(run)
    if state != "running" or not (run.folder() / "metrics.jsonl").exists():
        return whole
    try:
        rows = reader.metrics(run.folder())
    except ValueError:  # its last line is being written
        return whole
    return max(0.0, whole - rows[-1]["seconds"]) if rows else whole


def _configured_hours(run: Experiment) -> float:
    return run.cost.cuda_hours if needs_gpu(run) else run.cost.cpu_hours


def _measured(run: Experiment) -> float | None:
    """Return the seconds of a run's updates as `adanorm plan` measured them, where this device is for it."""
    updates = run.training.max_updates
    nothing_kept = not any((DRY_RUNS / "probes").glob("*.json"))  # which spares importing torch
    if nothing_kept or updates is None or (needs_gpu(run) and not on_cuda(run)):
        return None
    from adanorm.runs.probe import recall

    found = recall(run)
    return None if found is None else found.batch_seconds * run.training.accumulate * updates
