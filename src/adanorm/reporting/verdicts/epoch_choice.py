"""What choosing one epoch of a run costs: how its score scatters, what choosing on the test set wins."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np

from adanorm.config.experiment import Experiment
from adanorm.metrics.table import METRICS
from adanorm.records import reader
from adanorm.reporting.verdicts.selection import level
from adanorm.studies.grid import study_grid
from adanorm.studies.study import load_studies


class Run(NamedTuple):
    """Test scores of a run, larger is better: at the chosen epoch, and after every evaluation."""

    chosen: float
    curve: Sequence[float]


class EpochChoice(NamedTuple):
    """A task's runs at a scale, in groups that differ in their seed alone.

    `sd_chosen` and `sd_level` are the standard deviations over seeds, of `df` degrees of freedom, of the test
    score at the epoch chosen by validation and of the mean test score of the last third of the epochs;
    `won_on_test` is by how much the best epoch of the test set is better than the chosen one, on average.
    """

    task: str
    scale: str
    runs: int
    df: int
    sd_chosen: float
    sd_level: float
    won_on_test: float

    @property
    def seeds_for_ten(self) -> float:
        """How many seeds of levels tell as much as ten of chosen epochs, if their gaps are the same."""
        return 10 * (self.sd_level / self.sd_chosen) ** 2 if self.sd_chosen else math.nan


def epoch_choice(task: str, scale: str, groups: Iterable[Sequence[Run]]) -> EpochChoice | None:
    """Return what groups of runs, alike but for their seed, say of a task; None without two seeds of one."""
    several = [group for group in groups if len(group) > 1]
    df = sum(len(group) - 1 for group in several)
    if not df:
        return None
    runs = [run for group in several for run in group]

    def pooled(of: Sequence[Sequence[float]]) -> float:
        return math.sqrt(sum(float(np.var(scores) * len(scores)) for scores in of) / df)

    return EpochChoice(
        task,
        scale,
        len(runs),
        df,
        pooled([[run.chosen for run in group] for group in several]),
        pooled([[level(run.curve) or 0.0 for run in group] for group in several]),
        fmean(max(run.curve) - run.chosen for run in runs),
    )


def epoch_choices(runs: str | None = None) -> list[EpochChoice]:
    """Return what the records of all studies say, of each task and scale whose runs tracked test scores."""
    found: dict[tuple[str, str], dict[Path, dict[int, Run]]] = {}  # by seed, of runs that are alike else
    for study in load_studies().values():
        for plan in study_grid(study, runs=runs).values():
            for candidate in plan.candidates:
                first = candidate.runs[0]
                groups = found.setdefault((first.task.name, first.scale), {})
                alike = groups.setdefault(first.model_copy(update={"seed": 0}).folder(), {})
                alike |= tracked(candidate.runs)
    shown = (
        epoch_choice(task, scale, [list(group.values()) for group in groups.values()])
        for (task, scale), groups in sorted(found.items())
    )
    return [choice for choice in shown if choice is not None]


def tracked(planned: Sequence[Experiment]) -> dict[int, Run]:
    """Return the runs on record, all seeds', of which every evaluation's test score is, by seed."""
    on_record = {run.seed: run for run in [*planned, *reader.runs_on_record(planned[0])]}
    found = {}
    for run in on_record.values():
        result, rows = reader.result(run.folder()), reader.test_metrics(run.folder())
        if result is None or result.status != "done" or not rows:
            continue
        sign = 1 if METRICS[run.task.metric].higher_is_better else -1
        curve = [sign * row[f"test_{run.task.metric}"] for row in rows]
        found[run.seed] = Run(sign * result.test_score(run.task.metric), curve)
    return found
