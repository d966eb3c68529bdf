"""Trivial baselines of each data set (results/baselines.json): what a run must beat to have learned."""

import json
from functools import cache
from typing import Any, NamedTuple

from adanorm.config.experiment import Experiment
from adanorm.config.paths import PROJECT, SHIPPED
from adanorm.files import as_json, digest_of, whole, with_checksum, write_whole
from adanorm.metrics.table import METRICS

PATH = PROJECT / "results" / "baselines.json"
# Which change no data set, or in training alone.
BATCHING = {"batch_size", "batch_tokens", "streams", "evaluation_streams", "label_noise"}


class Baseline(NamedTuple):
    """The best of a data set's trivial baselines in a metric."""

    name: str
    score: float


def data_digest(run: Experiment) -> str:
    """Return eight hexadecimal digits that identify the data set of a run."""
    return digest_of({key: value for key, value in run.identity["data"].items() if key not in BATCHING})


@cache
def _entries() -> dict[str, dict[str, Any]]:
    """Return what is recorded by data set; raises ValueError where it is not what was written."""
    path = PATH if PATH.exists() else SHIPPED / "results" / PATH.name
    try:
        entries = [whole(entry) for entry in json.loads(path.read_bytes())] if path.exists() else []
    except (ValueError, TypeError, RecursionError):
        raise ValueError(
            f"{path}: it is not what was written; restore it, or delete it and run `adanorm baselines`"
        ) from None
    return {entry["data"]: entry for entry in entries}


def add_baselines(run: Experiment, splits: dict[str, dict[str, dict[str, float]]]) -> None:
    """Record the baselines of a run's data set, {split: {name: metrics}}, in place of older ones."""
    data = data_digest(run)
    entries = {**_entries(), data: {"task": run.task.name, "scale": run.scale, "data": data, **splits}}
    ordered = sorted(entries.values(), key=lambda entry: (entry["task"], entry["scale"], entry["data"]))
    write_whole(PATH, as_json([with_checksum(entry) for entry in ordered]))
    _entries.cache_clear()


def best_baseline(run: Experiment, metric: str) -> Baseline | None:
    """Return the best recorded baseline of a run's data set in a test metric; None where none has that."""
    recorded = _entries().get(data_digest(run), {}).get("test", {})
    known = [Baseline(name, scores[metric]) for name, scores in recorded.items() if metric in scores]
    return max(known, key=lambda baseline: METRICS[metric].sign * baseline.score, default=None)


def has_learned(run: Experiment, score: float) -> bool:
    """Return whether a test score is better than every recorded baseline of the run's data set."""
    baseline, sign = best_baseline(run, run.task.metric), METRICS[run.task.metric].sign
    return baseline is None or sign * score > sign * baseline.score
