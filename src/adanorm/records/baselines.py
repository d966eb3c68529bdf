"""Trivial baselines of each data set (results/baselines.json): what a run must beat to have learned."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from adanorm.config.digest import digest_of
from adanorm.config.experiment import Experiment
from adanorm.config.paths import PROJECT, SHIPPED
from adanorm.files import as_json, whole, with_checksum, write_whole
from adanorm.metrics.table import METRICS

PATH = PROJECT / "results" / "baselines.json"
BATCHING = {"batch_size", "batch_tokens", "streams", "evaluation_streams"}  # no part of a data set


class Baseline(NamedTuple):
    """The best of a data set's trivial baselines in a metric."""

    name: str
    score: float


def data_digest(run: Experiment) -> str:
    """Return eight hexadecimal digits that identify the data set of a run."""
    data = run.identity()["data"]
    return digest_of({key: value for key, value in data.items() if key not in BATCHING})


@cache
def _entries() -> dict[str, dict[str, Any]]:
    """Return what is recorded by data set; raises ValueError for what is not what was written."""
    by_data = {}
    for entry in _listed():
        try:
            values = whole(entry)
        except ValueError as error:
            shown = entry if isinstance(entry, dict) else {}
            settings = f"task={shown.get('task')} scale={shown.get('scale')}"
            raise ValueError(f"{_path()}: {settings}: {error}; `adanorm baselines` makes it again") from None
        by_data[values["data"]] = values
    return by_data


def _listed() -> list[Any]:
    path = _path()
    try:
        entries = json.loads(path.read_bytes()) if path.exists() else []
    except (ValueError, RecursionError):
        entries = None
    if not isinstance(entries, list):
        raise ValueError(f"{path}: it is no list in JSON; without it `adanorm baselines` makes it again")
    return entries


def _path() -> Path:
    return PATH if PATH.exists() else SHIPPED / "results" / PATH.name


def _is_whole(entry: Any) -> bool:
    with suppress(ValueError):
        return bool(whole(entry))
    return False


def add_baselines(run: Experiment, splits: dict[str, dict[str, dict[str, float]]]) -> None:
    """Record the baselines of a run's data set, {split: {name: metrics}}, in place of older ones."""
    entry: dict[str, Any] = {"task": run.task.name, "scale": run.scale, "data": data_digest(run), **splits}
    others = [other for other in _listed() if _is_whole(other) and other["data"] != entry["data"]]
    entries = [*others, with_checksum(entry)]
    ordered = sorted(entries, key=lambda entry: (entry["task"], entry["scale"], entry["data"]))
    write_whole(PATH, as_json(ordered))
    _entries.cache_clear()


def baselines(run: Experiment, split: str = "test") -> dict[str, dict[str, float]]:
    """Return the recorded baselines of a run's data set, {name: metrics}; empty where there are none."""
    by_name: dict[str, dict[str, float]] = _entries().get(data_digest(run), {}).get(split, {})
    return by_name


def best_baseline(run: Experiment, metric: str, split: str = "test") -> Baseline | None:
    """Return the best recorded baseline of a run's data set; None where none has the metric."""
    sign = 1 if METRICS[metric].higher_is_better else -1
    scores = {name: values[metric] for name, values in baselines(run, split).items() if metric in values}
    if not scores:
        return None
    name = max(scores, key=lambda name: sign * scores[name])
    return Baseline(name, scores[name])


def has_learned(run: Experiment, score: float) -> bool:
    """Return whether a test score is better than every recorded baseline of the run's data set."""
    metric = run.task.metric
    baseline = best_baseline(run, metric)
    sign = 1 if METRICS[metric].higher_is_better else -1
    return baseline is None or sign * score > sign * baseline.score
