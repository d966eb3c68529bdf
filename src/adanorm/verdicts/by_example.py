"""Norms compared on the same test examples: from the recorded outputs of runs to a comparison on record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    """Return the pairs whose comparison is not on record or is of other seeds than the two share.

    Of those that can be compared: two norms with a shared seed whose runs all kept their outputs. `folder`
    is that of the runs.
    """
    runs, stale = _settings(task, scale, pairs, folder), []
    for pair in pairs:
        seeds = shared_seeds(runs, pair)
        alike = [runs[norm].model_copy(update={"seed": seed}) for norm in pair for seed in seeds]
        if alike and all(reader.has_outputs(run.folder()) for run in alike):
            record = read_comparison(*(runs[norm] for norm in pair))
            if record is None or record.seeds != seeds:
                stale.append(pair)
    return stale


def bring_up_to_date(
    task: str, scale: str, pairs: Sequence[Norms], *, folder: str | None = None
) -> list[ByExample]:
    """Make and return the comparisons that are out of date: verdicts then allow for the noise of examples.

    Raises ValueError where the task's data are not there and cannot be fetched.
    """
    stale = out_of_date(task, scale, pairs, folder=folder)
    return compare_by_example(_settings(task, scale, stale, folder), stale) if stale else []


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
    shared = {pair: shared_seeds(runs, pair, seeds) for pair in pairs}
    for pair, common in shared.items():
        lacking = [seed for seed in seeds or ([] if common else [first.seed]) if seed not in common]
        if lacking:
            folders = [runs[norm].model_copy(update={"seed": lacking[0]}).folder() for norm in pair]
            missing = next((f for f in folders if reader.result(f) is None), folders[1])
            raise ValueError(f"{shown(missing)}: no completed run; `adanorm run` makes it")
    task = tasks.build(first)
    values: dict[tuple[str, int], Values] = {}
    factors: dict[tuple[str, int], dict[str, float]] = {}
    for norm, seed in {(norm, seed) for pair, common in shared.items() for norm in pair for seed in common}:
        folder = runs[norm].model_copy(update={"seed": seed}).folder()
        outputs = reader.outputs(folder, examples=task.sizes["test"])
        values[norm, seed] = np.array(task.scored(outputs, metric))
        factors[norm, seed] = task.score_factors(outputs, metric)
    sign = 1 if METRICS[first.task.metric].higher_is_better else -1
    own = _settings(first.task.name, first.scale, pairs, first.runs)
    compared = []
    for pair, common in shared.items():
        sides = [np.array([values[norm, seed] for seed in common]) for norm in pair]
        record = _record(first, pair, metric, common, sides)
        path = comparison_path(*(runs[norm] for norm in pair))
        is_whole = seeds is None or common == shared_seeds(runs, pair)
        is_own = metric == first.task.metric and path == comparison_path(*(own[norm] for norm in pair))
        if is_whole and is_own:
            write_comparison(path, record)
        gaps = [sign * float(gap) + 0.0 for gap in (sides[1] - sides[0]).mean(1)]
        parts = factor_gaps([(factors[pair[0], seed], factors[pair[1], seed]) for seed in common])
        compared.append(ByExample(record, gaps, is_whole and is_own, parts))
    return compared


def _settings(task: str, scale: str, pairs: Sequence[Norms], folder: str | None) -> dict[str, Experiment]:
    """Return a run of each norm of some pairs, with its own settings."""
    chosen = [f"task={task}", f"scale={scale}"]
    norms = dict.fromkeys(norm for pair in pairs for norm in pair)
    return {norm: cached_experiment([*chosen, f"norm={norm}"], runs=folder) for norm in norms}


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
    splits = {norm: seed_split(side) for norm, side in zip(pair, sides, strict=True)}
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
        test_set={norm: split[0] for norm, split in splits.items() if split},
        distribution={norm: split[1] for norm, split in splits.items() if split},
    )
