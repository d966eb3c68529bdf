"""Two norms on the same test examples, by the counts per example in their records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain

import numpy as np

from adanorm.config.experiment import Experiment
from adanorm.config.sections import one_series
from adanorm.config.titles import METRICS
from adanorm.config.values import digest_of
from adanorm.records import reader
from adanorm.records.by_example import by_example, factors
from adanorm.records.folder import path_text
from adanorm.records.lines import once
from adanorm.stats.example_noise import ExampleNoise, example_noise
from adanorm.stats.sequential import Numbers
from adanorm.stats.variance import Components, components, seed_split


@dataclass(frozen=True)
class ByExample:
    """By how much the second of two norms is better, with the noise of seeds and examples."""

    seeds: tuple[int, ...]  # all of one series
    outputs: str  # digest of the test outputs compared: eight hexadecimal digits
    gaps: tuple[float, ...]  # one per seed, in that order; positive where the second norm is better
    noise: Components
    own_noise: ExampleNoise | None  # None for one seed
    parts: Mapping[str, float]  # the part of the mean gap that each factor of the metric makes up
    # Each norm's standard deviation over seeds, on this test set and on its distribution; None
    # below 5 seeds.
    spreads: tuple[tuple[float, float] | None, ...]


def compare_examples(sides: Sequence[Sequence[Experiment]], metric: str) -> ByExample | None:
    """Return two norms compared seed by seed.

    None unless all runs counted equally many examples, at least 2. Raises ValueError if the seeds
    belong to several series.
    """
    seeds = tuple(run.seed for run in sides[0])
    one_series([*seeds])
    records = []
    for side in sides:
        records.append(tuple(reader.record(run.folder()) for run in side))
    return _compared(
        seeds,
        tuple(records),
        metric,
    )


@once
def _compared(
    seeds: tuple[int, ...], records: tuple[tuple[reader.Record, ...], ...], metric: str
) -> ByExample | None:
    all_records = [*chain(*records)]
    if not seeds or any(metric not in record.counts for record in all_records):
        return None
    scores = []
    for side_records in records:
        scores.append(np.array([_scores(record, metric) for record in side_records]))
    if scores[0].shape != scores[1].shape or scores[0].shape[1] < 2:
        return None
    gaps = scores[1] - scores[0]
    sign = METRICS[metric].sign
    return ByExample(
        seeds,
        digest_of({"outputs": [record.outputs_digest for record in all_records]}),
        tuple(sign * float(gap) + 0.0 for gap in gaps.mean(1)),
        components(gaps),
        example_noise(gaps) if len(seeds) > 1 else None,
        _factor_gaps(records, metric),
        tuple(map(seed_split, scores)),
    )


def runs_of(run: Experiment, seeds: Sequence[int]) -> list[Experiment]:
    """Return the run with each seed.

    Raises ValueError if one is not done or has not counted its examples.
    """
    runs = [run.model_copy(update={"seed": seed}) for seed in seeds]
    for seed_run in runs:
        folder = seed_run.folder()
        result = reader.result(folder)
        if result is None or result.status != "done":
            raise ValueError(f"{path_text(folder)}: no completed run; `adanorm run` makes it")
        if not reader.record(folder).counts:
            raise ValueError(f"{path_text(folder)}: has not counted its test examples")
    return runs


@cache
def _scores(record: reader.Record, metric: str) -> Numbers:
    return by_example(metric, record.counts[metric])


def _factor_gaps(sides: Sequence[Sequence[reader.Record]], metric: str) -> dict[str, float]:
    """Return the part of the mean gap that each of two factors makes up.

    {} for a metric without factors. A part is the factor's own gap times the other factor's mean,
    so the parts sum to the product's gap.
    """
    parts: dict[str, float] = {}
    for first_record, second_record in zip(*sides, strict=True):
        first = factors(metric, first_record.counts[metric])
        second = factors(metric, second_record.counts[metric])
        for name, partner in zip(first, reversed(first), strict=True):
            gap = second[name] - first[name]
            mean = (first[partner] + second[partner]) / 2
            earlier = parts.get(name, 0.0)
            parts[name] = earlier + gap * mean / len(sides[0])
    return parts
