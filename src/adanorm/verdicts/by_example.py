"""Two norms compared on the same test examples: a function of what the records of their runs count."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from adanorm.config.experiment import Experiment
from adanorm.files import digest_of
from adanorm.metrics.by_example import by_example, factors
from adanorm.metrics.table import METRICS
from adanorm.records import reader
from adanorm.records.folder import shown
from adanorm.verdicts.variance import Components, Values, components, seed_split


@dataclass(frozen=True)
class ByExample:
    """A comparison of two norms: by how much the second is better, and the noise of seeds and of examples."""

    seeds: tuple[int, ...]  # of one series
    outputs: str  # eight digits that identify the test outputs compared
    gaps: tuple[float, ...]  # in the order of the seeds
    noise: Components
    parts: Mapping[str, float]  # how much of the mean gap each factor of the metric makes up
    # Each norm's deviations over five seeds or more: on this test set and on its distribution.
    spreads: tuple[tuple[float, float] | None, ...]


def compared_by_example(sides: Sequence[Sequence[Experiment]], metric: str) -> ByExample | None:
    """Return two norms' comparison, seed by seed; None without counts of two examples or more.

    Raises ValueError for seeds of several series.
    """
    seeds = tuple(run.seed for run in sides[0])
    if len({reader.seed_series(seed) for seed in seeds}) > 1:
        raise ValueError(f"seeds {', '.join(map(str, seeds))}: of several series; compare those of one")
    records = [[reader.record(run.folder()) for run in side] for side in sides]
    if not seeds or any(metric not in record.counts for side in records for record in side):
        return None
    scores = [np.array([_scores(record, metric) for record in side]) for side in records]
    if len({side.shape for side in scores}) > 1 or scores[0].shape[1] < 2:
        return None
    gaps, outputs = scores[1] - scores[0], [record.outputs_digest for side in records for record in side]
    return ByExample(
        seeds,
        digest_of({"outputs": outputs}),
        tuple(METRICS[metric].sign * float(gap) + 0.0 for gap in gaps.mean(1)),
        components(gaps),
        _factor_gaps(records, metric),
        tuple(map(seed_split, scores)),
    )


def runs_of(run: Experiment, seeds: Sequence[int]) -> list[Experiment]:
    """Return the runs of some seeds; raises ValueError for one that is not done or counted no examples."""
    runs = [run.model_copy(update={"seed": seed}) for seed in seeds]
    for one in runs:
        result = reader.result(one.folder())
        if result is None or result.status != "done":
            raise ValueError(f"{shown(one.folder())}: no completed run; `adanorm run` makes it")
        if not reader.record(one.folder()).counts:
            raise ValueError(f"{shown(one.folder())}: has not counted its test examples")
    return runs


@cache
def _scores(record: reader.Record, metric: str) -> Values:
    return by_example(metric, record.counts[metric])


def _factor_gaps(sides: Sequence[Sequence[reader.Record]], metric: str) -> dict[str, float]:
    """Return how much of the mean gap each of two factors makes up; {} of a metric without factors.

    Its own gap times the mean of the other, so that the parts sum to the gap of the products.
    """
    parts: dict[str, float] = {}
    for pair in zip(*sides, strict=True):
        first, second = (factors(metric, record.counts[metric]) for record in pair)
        for name, other in zip(first, reversed([*first]), strict=True):
            part = (second[name] - first[name]) * (first[other] + second[other]) / 2
            parts[name] = parts.get(name, 0.0) + part / len(sides[0])
    return parts
