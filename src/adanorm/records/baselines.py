"""Trivial baselines of each data set, which a run that has learned beats."""

import json
from functools import cache
from operator import itemgetter
from typing import NamedTuple

from adanorm.config.experiment import Experiment
from adanorm.config.paths import PROJECT, SHIPPED
from adanorm.config.titles import METRICS
from adanorm.files import Values, as_json, with_checksum, without_checksum, write_whole
from adanorm.records.lines import once

PATH = PROJECT / "results" / "baselines.json"
# Settings that leave the data set the same: they change batches, or labels of training alone.


class Baseline(NamedTuple):
    """The best trivial baseline of a data set in one metric."""

    name: str
    score: float


@cache
def _entries() -> dict[str, Values]:
    """Return the recorded baselines by the data set's digest.

    Raises ValueError if the file was damaged.
    """
    path = PATH if PATH.exists() else SHIPPED / "results" / PATH.name
    if not path.exists():
        return {}
    try:
        entries = map(without_checksum, json.loads(path.read_bytes()))
        return {entry["data"]: entry for entry in entries}
    except (ValueError, TypeError, RecursionError):
        hint = "restore it, or delete it and run `adanorm baselines`"
        raise ValueError(f"{path}: it has been changed; {hint}") from None


def add_baselines(run: Experiment, splits: dict[str, dict[str, dict[str, float]]]) -> None:
    """Record the baselines of a run's data set, {split: {name: metrics}}; `anchors` beside splits.

    They replace older ones.
    """
    by_data = dict(_entries())
    by_data[run.data_digest] = {
        "task": run.task.name,
        "scale": run.scale,
        "data": run.data_digest,
        **splits,
    }
    entries = sorted(by_data.values(), key=itemgetter("task", "scale", "data"))
    write_whole(PATH, as_json([with_checksum(entry) for entry in entries]))
    _entries.cache_clear()


def best_baseline(run: Experiment, metric: str) -> Baseline | None:
    """Return the best baseline of a run's data set in a test metric.

    None if none has that metric.
    """
    return _best(run.data_digest, metric, "test")


@once
def _best(data: str, metric: str, part: str) -> Baseline | None:
    scores_by_name = _entries().get(data, {}).get(part, {})
    baselines = []
    for name, scores in scores_by_name.items():
        if metric in scores:
            baselines.append(Baseline(name, scores[metric]))
    sign = METRICS[metric].sign
    return max(
        baselines,
        key=lambda baseline: sign * baseline.score,
        default=None,
    )


def best_anchor(run: Experiment, metric: str) -> Baseline | None:
    """Return the best outside model of a run's data set in a test metric, which decides nothing."""
    return _best(run.data_digest, metric, "anchors")


def has_learned(run: Experiment, score: float) -> bool:
    """Return whether a test score beats every recorded baseline of the run's data set."""
    baseline = best_baseline(run, run.task.metric)
    sign = METRICS[run.task.metric].sign
    return baseline is None or sign * score > sign * baseline.score
