"""The runs of a study's cells, and the order in which they are made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from adanorm.config.compose import compose_experiment
from adanorm.config.compose_cache import cached_experiment
from adanorm.config.experiment import Experiment
from adanorm.config.paths import choices
from adanorm.studies.study import Study

# (row, task) -> its runs: one a seed, and that for each of the budget's overrides in their order
StudyGrid: TypeAlias = dict[tuple[str, str], list[Experiment]]


def study_grid(study: Study, *, runs: str | None = None, settings: Sequence[str] = ()) -> StudyGrid:
    """Return the runs of every cell; none where the task is not in conf/task yet.

    `settings` are overrides of every run, such as its logger. Raises ValueError, in one line that names
    the row, for overrides that are none.
    """
    return {
        (row, task): [
            first.model_copy(update={"seed": seed})
            for overrides in tried(study, row, task)
            for first in [_composed(row, overrides, runs, settings)]
            for seed in study.seeds
        ]
        for task in study.columns
        for row in study.rows
    }


def tried(study: Study, label: str, task: str) -> list[list[str]]:
    """Return the command lines, but for the seed, of what is tried in a cell: one an override of a budget."""
    row = study.rows[label]
    if task not in choices("task") or row.undefined or (row.only is not None and task not in row.only):
        return []
    chosen = [f"task={task}", f"norm={row.norm}", f"scale={study.scale}", *study.overrides, *row.overrides]
    return [[*chosen, override] for override in study.budget] if study.budget else [chosen]


def _composed(label: str, overrides: list[str], runs: str | None, settings: Sequence[str]) -> Experiment:
    try:
        if not settings:
            return cached_experiment(overrides, runs=runs)
        return compose_experiment([*overrides, *settings, *([f"runs={runs}"] if runs else [])])
    except ValueError as error:
        raise ValueError(f"row {label!r}: {error}") from None


def by_override(study: Study, runs: Sequence[Experiment]) -> list[Sequence[Experiment]]:
    """Return a cell's runs in groups that differ in their seed alone, one an override of the budget."""
    count = len(study.seeds)
    return [runs[start : start + count] for start in range(0, len(runs), count)]


class Planned(NamedTuple):
    """A run of a study, with the command line that makes it."""

    row: str
    experiment: Experiment
    arguments: list[str]

    @property
    def name(self) -> str:
        """What a person calls it."""
        return f"{self.experiment.task.name} {self.row} seed {self.experiment.seed}"


def plan_runs(study: Study, grid: StudyGrid, settings: Sequence[str] = ()) -> list[Planned]:
    """Return a study's runs in the order they are made: every cell's first seed comes first.

    Rows that share a run share it here too.
    """
    planned: dict[Path, Planned] = {}
    for (row, task), runs in grid.items():
        lines = [overrides for overrides in tried(study, row, task) for _ in study.seeds]
        for overrides, run in zip(lines, runs, strict=True):
            places = [f"runs={run.runs}"] if run.runs else []
            arguments = [*overrides, f"seed={run.seed}", *settings, *places]
            planned.setdefault(run.folder(), Planned(row, run, arguments))
    return sorted(planned.values(), key=lambda run: study.seeds.index(run.experiment.seed))
