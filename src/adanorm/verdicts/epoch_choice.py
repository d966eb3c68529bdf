"""What choosing one epoch of a run costs: how its score scatters, what choosing on the test set wins."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np
from scipy.stats import t as student

from adanorm.config.experiment import Experiment
from adanorm.metrics.table import METRICS
from adanorm.records import reader
from adanorm.studies.grid import study_grid
from adanorm.studies.study import load_studies
from adanorm.verdicts.cell import level


class Run(NamedTuple):
    """Test scores of a run, larger is better: at the chosen epoch, and after every evaluation.

    `averaged` is that of the mean of some evaluations' weights, of a run that has one.
    """

    chosen: float
    curve: Sequence[float]
    averaged: float | None = None


class Steadier(NamedTuple):
    """A score that may scatter less over seeds than the chosen epoch's: its standard deviation.

    `variance_ratio` is its variance by that of the chosen epoch's score; low and high are the ends of the
    95 % interval, infinite where runs are too few for one.
    """

    sd: float
    variance_ratio: float
    low: float
    high: float


class EpochChoice(NamedTuple):
    """A task's runs at a scale, in groups that differ in their seed alone.

    `sd_chosen` is the standard deviation over seeds, of `df` degrees of freedom, of the test score at the
    epoch chosen by validation; `level` says as much of the mean test score of the last third of the epochs.
    `won_on_test` is by how much the best epoch of the test set is better than the chosen one, on average.
    Of runs that averaged weights, `over` says which, `averaged` is of their score, which is better than that
    of the chosen epoch by `won_by_averaging`.
    """

    task: str
    scale: str
    runs: int
    df: int
    sd_chosen: float
    level: Steadier
    won_on_test: float
    over: str = ""
    averaged: Steadier | None = None
    won_by_averaging: float | None = None


def steadier(chosen: Sequence[Sequence[float]], other: Sequence[Sequence[float]]) -> Steadier:
    """Return how another score of the same runs, in groups, scatters beside that of the chosen epoch.

    With r the correlation within groups of the two scores, d the degrees of freedom and w the ratio of
    variances, the interval is w (K ± sqrt(K² - 1)), K = 1 + 2 (1 - r²) t² / (d - 1), where t is Student's
    0.975 quantile of d - 1 degrees of freedom (Pitman 1939, Morgan 1939).
    """
    x, y = (np.concatenate([np.subtract(group, np.mean(group)) for group in of]) for of in (chosen, other))
    df = len(x) - len(chosen)
    xx, yy, xy = float(x @ x), float(y @ y), float(x @ y)
    sd = math.sqrt(yy / df)
    if not xx:
        return Steadier(sd, math.nan, 0.0, math.inf)
    ratio = yy / xx
    if df < 2 or not yy:
        return Steadier(sd, ratio, 0.0, math.inf)
    unshared = max(0.0, 1 - xy**2 / (xx * yy))
    k = 1 + 2 * unshared * student(df - 1).ppf(0.975) ** 2 / (df - 1)
    half = math.sqrt(k**2 - 1)
    return Steadier(sd, ratio, ratio * (k - half), ratio * (k + half))


def epoch_choice(
    task: str, scale: str, groups: Iterable[Sequence[Run]], *, over: str = ""
) -> EpochChoice | None:
    """Return what groups of runs, alike but for their seed, say of a task; None without two seeds of one.

    `over` says which evaluations' weights the runs averaged, if they did.
    """
    several = [group for group in groups if len(group) > 1]
    runs = [run for group in several for run in group]
    if not runs:
        return None
    chosen = [[run.chosen for run in group] for group in several]
    levels = [[level(run.curve) or 0.0 for run in group] for group in several]
    averages = [[run.averaged for run in group if run.averaged is not None] for group in several]
    won = [run.averaged - run.chosen for run in runs if run.averaged is not None]
    has_averages = len(won) == len(runs)
    return EpochChoice(
        task,
        scale,
        len(runs),
        len(runs) - len(several),
        steadier(chosen, chosen).sd,
        steadier(chosen, levels),
        fmean(max(run.curve) - run.chosen for run in runs),
        over,
        steadier(chosen, averages) if has_averages else None,
        fmean(won) if has_averages else None,
    )


def epoch_choices(runs: str | None = None) -> list[EpochChoice]:
    """Return what the records of all studies say, of each task and scale whose runs tracked test scores.

    Runs that averaged weights are told apart.
    """
    by_task: dict[tuple[str, str, str], dict[Path, dict[int, Run]]] = {}  # runs that are alike, by seed
    for study in load_studies().values():
        for plan in study_grid(study, runs=runs).values():
            for candidate in plan.candidates:
                first = candidate.runs[0]
                average = first.training.average
                over = f"{average.of} {average.count}" if average else ""
                groups = by_task.setdefault((first.task.name, first.scale, over), {})
                alike = groups.setdefault(first.model_copy(update={"seed": 0}).folder(), {})
                alike |= tracked(candidate.runs)
    shown = (
        epoch_choice(task, scale, [list(group.values()) for group in groups.values()], over=over)
        for (task, scale, over), groups in sorted(by_task.items())
    )
    return [choice for choice in shown if choice is not None]


def tracked(planned: Sequence[Experiment]) -> dict[int, Run]:
    """Return the runs on record, all seeds', of which every evaluation's test score is, by seed."""
    on_record = {run.seed: run for run in [*planned, *reader.runs_on_record(planned[0])]}
    metric, by_seed = planned[0].task.metric, {}
    sign = 1 if METRICS[metric].higher_is_better else -1
    for run in on_record.values():
        result, rows = reader.result(run.folder()), reader.record(run.folder()).rows("test_metrics.jsonl")
        if result is None or result.status != "done" or not rows:
            continue
        curve = [sign * row[f"test_{metric}"] for row in rows]
        chosen, averaged = sign * result.test_score(metric), None
        if result.averaged:
            averaged = chosen
            chosen = next(x for row, x in zip(rows, curve, strict=True) if row["update"] == result.best_step)
        by_seed[run.seed] = Run(chosen, curve, averaged)
    return by_seed
