"""Norms compared on the same test examples: from the recorded outputs of runs to a comparison on record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from adanorm.config.compose import cached_experiment
from adanorm.config.experiment import Experiment
from adanorm.metrics.table import METRICS
from adanorm.records import reader
from adanorm.records.comparisons import ComparisonRecord, comparison_path, read_comparison, write_comparison
from adanorm.records.folder import shown
from adanorm.verdicts.cell import cell_on_record
from adanorm.verdicts.crossed import Values, components, seed_split
from adanorm.verdicts.preregistration import preregistration

Norms: TypeAlias = tuple[str, str]  # the first is what the second is compared with


class ByExample(NamedTuple):
    """A comparison of two norms, and by how much the second is better, one gap a seed.

    `is_on_record`: it is of what claims are of. `parts`: how much of the mean gap each factor of the metric
    makes up, by its name, where the metric is a product.
    """

    record: ComparisonRecord
    gaps: list[float]
    is_on_record: bool
    parts: dict[str, float]


def claimed_pairs(task: str) -> list[Norms]:
    """Return the pairs of norms that claims of a task's score compare, the worse first."""
    claims = [c for c in preregistration().claims if c.quantity == "test" and task in c.tasks]
    return list(dict.fromkeys((worse, better) for better, worse in (c.norms(task) for c in claims)))


def shared_seeds(
    runs: Mapping[str, Experiment], pair: Norms, seeds: Sequence[int] | None = None
) -> list[int]:
    """Return the seeds that both norms have done, of those that are named if there are such."""
    done = [cell_on_record(runs[norm]).by_seed.keys() for norm in pair]
    return sorted(done[0] & done[1] if seeds is None else done[0] & done[1] & {*seeds})


def out_of_date(task: str, scale: str, pairs: Sequence[Norms], *, folder: str | None = None) -> list[Norms]:
    """Return the pairs whose comparison is not on record, or is of other seeds than the two norms share.

    Only pairs whose runs all kept their outputs can be compared. `folder` is that of the runs.
    """
    runs, lacking = _settings(task, scale, pairs, folder), []
    for pair in pairs:
        seeds, sides = shared_seeds(runs, pair), [runs[norm] for norm in pair]
        record = read_comparison(*sides)
        if (seeds if record is None else record.seeds != seeds) and all(
            reader.has_outputs(_folder(run, seed)) for run in sides for seed in seeds
        ):
            lacking.append(pair)
    return lacking


def bring_up_to_date(
    task: str, scale: str, pairs: Sequence[Norms], *, folder: str | None = None
) -> list[ByExample]:
    """Make and return the comparisons that are out of date; raises ValueError without the task's data."""
    lacking = out_of_date(task, scale, pairs, folder=folder)
    return compare_by_example(_settings(task, scale, lacking, folder), lacking) if lacking else []


def compare_by_example(
    runs: Mapping[str, Experiment],
    pairs: Sequence[Norms],
    *,
    seeds: Sequence[int] | None = None,
    metric: str = "",
) -> list[ByExample]:
    """Return the comparisons of pairs of norms; `runs` has one run of each norm, whatever its seed.

    Put on record are those that claims are of: over all shared seeds, by the task's own metric, which is the
    default, of the norms' own settings. Raises ValueError where a run is missing or has no outputs, or the
    metric has no parts by example.
    """
    from adanorm import tasks

    first = next(iter(runs.values()))
    metric = metric or first.task.metric
    shared = {pair: _compared_seeds(runs, pair, seeds) for pair in pairs}
    task = tasks.build(first)

    @cache
    def scores(norm: str, seed: int) -> tuple[Values, dict[str, float]]:
        outputs = reader.outputs(_folder(runs[norm], seed), examples=task.sizes["test"])
        return np.array(task.scored(outputs, metric)), task.score_factors(outputs, metric)

    sign = 1 if METRICS[first.task.metric].higher_is_better else -1
    own = _settings(first.task.name, first.scale, pairs, first.runs)
    comparisons = []
    for pair, common in shared.items():
        sides = [np.array([scores(norm, seed)[0] for seed in common]) for norm in pair]
        record = _record(first, pair, metric, common, sides)
        path, own_path = (comparison_path(*(of[norm] for norm in pair)) for of in (runs, own))
        is_claimed = metric == first.task.metric and path == own_path
        if is_claimed := is_claimed and common == shared_seeds(runs, pair):
            write_comparison(path, record)
        gaps = [sign * float(gap) + 0.0 for gap in (sides[1] - sides[0]).mean(1)]
        factors = [(scores(pair[0], seed)[1], scores(pair[1], seed)[1]) for seed in common]
        comparisons.append(ByExample(record, gaps, is_claimed, factor_gaps(factors)))
    return comparisons


def _compared_seeds(runs: Mapping[str, Experiment], pair: Norms, seeds: Sequence[int] | None) -> list[int]:
    """Return the seeds of a comparison; raises ValueError for one whose run is not done."""
    common = shared_seeds(runs, pair, seeds)
    asked = seeds or common or [runs[pair[0]].seed]
    if missing := [_folder(runs[norm], seed) for seed in asked if seed not in common for norm in pair]:
        missing = [folder for folder in missing if reader.result(folder) is None] or missing[1:]
        raise ValueError(f"{shown(missing[0])}: no completed run; `adanorm run` makes it")
    return common


def _settings(task: str, scale: str, pairs: Sequence[Norms], folder: str | None) -> dict[str, Experiment]:
    """Return a run of each norm of some pairs, with its own settings."""
    chosen = [f"task={task}", f"scale={scale}"]
    norms = dict.fromkeys(norm for pair in pairs for norm in pair)
    return {norm: cached_experiment([*chosen, f"norm={norm}"], runs=folder) for norm in norms}


def _folder(run: Experiment, seed: int) -> Path:
    return run.model_copy(update={"seed": seed}).folder()


def factor_gaps(sides: Sequence[tuple[Mapping[str, float], Mapping[str, float]]]) -> dict[str, float]:
    """Return how much of the mean gap between two products of two factors each factor makes up, by its name.

    `sides` has, for each seed, the factors of the first norm's score and of the second's. A factor's part is
    its own gap times the mean of the other, so that the parts sum to the gap of the products. {}: no factors.
    """
    parts: dict[str, float] = {}
    for first, second in sides:
        for name, other in zip(first, reversed([*first]), strict=True):
            part = (second[name] - first[name]) * (first[other] + second[other]) / 2
            parts[name] = parts.get(name, 0.0) + part / len(sides)
    return parts


def _record(
    run: Experiment, pair: Norms, metric: str, seeds: list[int], sides: Sequence[Values]
) -> ComparisonRecord:
    variances = components(sides[1] - sides[0])
    splits = {norm: split for norm, side in zip(pair, sides, strict=True) if (split := seed_split(side))}
    return ComparisonRecord(
        task=run.task.name,
        scale=run.scale,
        metric=metric,
        norms=pair,
        seeds=seeds,
        examples=variances.examples,
        gap=float((sides[1] - sides[0]).mean()),
        seed_variance=variances.seed,
        example_variance=variances.example,
        rest_variance=variances.rest,
        seed_error=variances.seed_error,
        example_error=variances.example_error,
        test_set={norm: split[0] for norm, split in splits.items()},
        distribution={norm: split[1] for norm, split in splits.items()},
    )
