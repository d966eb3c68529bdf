"""The runs of a study's cells, and the order in which they are run."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

from adanorm.config.compose import cached_experiment
from adanorm.config.experiment import Experiment
from adanorm.config.paths import choices
from adanorm.studies.study import Study


@dataclass(frozen=True)
class Candidate:
    """Settings tried in a cell: runs that differ in nothing but their seed."""

    overrides: tuple[str, ...]  # the command line of its runs, but for the seed
    runs: list[Experiment]  # in the order of the study's seeds
    setting: str | None = None  # the override of the budget that it tries; None without a budget


@dataclass(frozen=True)
class CellPlan:
    """What is run for a cell."""

    candidates: tuple[Candidate, ...]  # one, or one an override of the budget; none: there are no runs

    @property
    def runs(self) -> list[Experiment]:
        """The runs of all candidates."""
        return [run for candidate in self.candidates for run in candidate.runs]


StudyGrid: TypeAlias = dict[tuple[str, str], CellPlan]  # by the row's label and the task


def study_grid(study: Study, *, runs: str | None = None, settings: Sequence[str] = ()) -> StudyGrid:
    """Return what is run for every cell; `settings` are of every run. ValueError names a wrong row."""
    cells = [(label, task) for task in study.columns for label in study.rows]
    return {cell: CellPlan(_candidates(study, *cell, runs, settings)) for cell in cells}


def _candidates(
    study: Study, label: str, task: str, runs: str | None, settings: Sequence[str]
) -> tuple[Candidate, ...]:
    row = study.rows[label]
    if task not in choices("task") or row.undefined or (row.only is not None and task not in row.only):
        return ()
    of_column, of_both = (one.column_overrides.get(task, ()) for one in (study, row))
    changes = (*study.overrides, *of_column, *row.overrides, *of_both)
    chosen = (f"task={task}", f"norm={row.norm}", f"scale={study.scale}", *changes)
    candidates: dict[str, Candidate] = {}
    try:
        for setting in study.budget_of(label) or (None,):
            overrides = (*chosen, setting) if setting else chosen
            first = cached_experiment((*overrides, *settings), runs=runs)
            of_seeds = [first.model_copy(update={"seed": seed}) for seed in study.seeds]
            if same := candidates.get(of_seeds[0].digest()):
                raise ValueError(f"{same.setting} and {setting} of its budget are one setting")
            candidates[of_seeds[0].digest()] = Candidate(overrides, of_seeds, setting)
    except ValueError as error:
        raise ValueError(f"row {label!r}: {error}") from None
    return tuple(candidates.values())


class Planned(NamedTuple):
    """A run of a study, with the command line that makes it."""

    row: str
    experiment: Experiment
    arguments: list[str]

    @property
    def name(self) -> str:
        """What a person calls it."""
        return f"{self.experiment.task.name} {self.row} seed {self.experiment.seed}"


def plan_runs(grid: StudyGrid, settings: Sequence[str] = ()) -> list[Planned]:
    """Return a study's runs, those that rows share once: every cell's first seed comes first."""
    planned: dict[Path, tuple[int, Planned]] = {}
    for (label, _), plan in grid.items():
        for candidate in plan.candidates:
            for turn, run in enumerate(candidate.runs):
                place = [f"runs={run.runs}"] if run.runs else []
                arguments = [*candidate.overrides, f"seed={run.seed}", *settings, *place]
                planned.setdefault(run.folder(), (turn, Planned(label, run, arguments)))
    return [run for _, run in sorted(planned.values(), key=lambda entry: entry[0])]
