"""Studies: grids of runs, written once in conf/study, that say what to run and what to print; their runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from pydantic import AfterValidator, Field, field_validator, model_validator

from adanorm.config.compose import cached_experiment
from adanorm.config.errors import check_known
from adanorm.config.experiment import Experiment
from adanorm.config.outside_norms import outside_norms
from adanorm.config.overrides import check_each_once, check_fixed
from adanorm.config.paths import CONF, choices
from adanorm.config.sections import Config, EachOnce, Scale, Seeds, each_once
from adanorm.config.titles import title
from adanorm.config.yaml_file import read_yaml_file
from adanorm.records.published import published_tasks
from adanorm.studies.rule import Rule


def _in_one_line(text: str) -> str:
    if not text or text != text.strip() or not text.isprintable():
        raise ValueError(f"{text!r}: write a word or more, in one line, without space around them")
    return text


Line = Annotated[str, AfterValidator(_in_one_line)]
# In Hydra's syntax; none may make a cell's runs another cell's.
Changes = Annotated[tuple[str, ...], AfterValidator(check_fixed)]
Overrides = Annotated[Changes, AfterValidator(check_each_once)]
Budget = Annotated[Changes, EachOnce]  # one is tried at a time

# README's table; the figures of curves of every task at the study's scale; the scores in the guide of norms.
Role = Literal["readme", "curves", "figure", "norm-guide", "latex", "square"]


class StudyRow(Config):
    """A row of a study: a norm, and what else sets the row apart."""

    norm: str
    overrides: Overrides = ()
    column_overrides: dict[str, Overrides] = Field(default_factory=dict)  # of its runs of a column
    only: tuple[str, ...] | None = None  # the columns it has runs in; null: all
    at: float | None = None  # the value of what the study goes over, such as a batch size
    line: str | None = None  # what its line there is called, where it is not its norm's
    panel: str | None = None  # what the rows of its panel there have in common; null: it is in every panel
    undefined: str | None = None  # why there can be no runs of it
    budget: Budget = ()  # overrides tried in its cells, as many as in every row that has its own
    compared: bool = True  # with the paper's numbers; false: only shown in a table of them


class Study(Config):
    """Rows x tasks (columns) x seeds at one scale."""

    title: Line
    rows: Annotated[dict[Line, StudyRow], Field(min_length=1)]  # in YAML perhaps a list of norms
    columns: Annotated[list[str], Field(min_length=1), EachOnce]
    scale: Scale
    seeds: Seeds
    improvements: tuple[tuple[str, str], ...] = ()  # (from, to): a row of differences
    quote: str | None = None  # the paper's numbers stand beside runs they are no measure of: why
    overrides: Overrides = ()  # of every run
    column_overrides: dict[str, Overrides] = Field(default_factory=dict)  # of every run of a column
    budget: Budget = ()  # overrides tried in every cell; the best by validation is shown
    over: str | None = None  # what the rows' `at` counts: the figure then has it along its axis
    draws: tuple[Literal["test", "memorized", "recovered"], ...] = ("test",)  # against that setting
    shows: Literal["scores", "curves"] = "scores"  # what its figures draw; curves: one a column
    roles: tuple[Role, ...] = ()  # what is made of its runs besides its table
    rule: Rule | None = None  # how its rows are compared, written before any run
    order: int = 100  # its place in the report; studies of one order by name

    @field_validator("rows", mode="before")
    @classmethod
    def _norms_are_rows(cls, rows: Any) -> Any:
        if isinstance(rows, list):
            if others := [row for row in rows if not isinstance(row, str)]:
                raise ValueError(f"{others[0]!r} in a list of norms: rows with labels are a mapping")
            return {norm: {"norm": norm} for norm in each_once(rows)}
        return rows

    @model_validator(mode="after")
    def _rows_are_told_apart_and_tried_alike(self) -> Study:
        places: dict[object, str] = {}
        for label, row in self.rows.items() if self.over is not None else ():
            if row.at is None:
                raise ValueError(f"row {label!r}: lacks `at`, its {self.over}")
            if (other := places.setdefault((row.line or row.norm, row.at, row.panel), label)) != label:
                at = f"{self.over} {row.at:g}"
                raise ValueError(f"rows {other!r} and {label!r}: one norm at {at}: give each a panel")
        for task in self.columns if self.shows == "curves" else ():
            norms = [row.norm for row in self.rows.values() if row.only is None or task in row.only]
            if len(set(norms)) < len(norms):
                raise ValueError(f"column {task!r}: two rows have the same norm, so their curves look alike")
        if len(counts := sorted({len(self.budget_of(label)) for label in self.rows})) > 1:
            sizes = ", ".join(map(str, counts))
            raise ValueError(f"rows with budgets of {sizes} settings: give each row the same number")
        return self

    def budget_of(self, label: str) -> tuple[str, ...]:
        """Return the overrides tried in the cells of a row; none without a budget."""
        return self.rows[label].budget or self.budget

    @property
    def tries(self) -> int:
        """How many settings are tried in a cell; 0 without a budget."""
        return max(len(self.budget_of(label)) for label in self.rows)

    @property
    def varies(self) -> bool:
        """Whether a run that is compared has other settings than its task's and norm's, or its column's."""
        rows = self.rows.values()
        return bool(self.overrides or self.tries or any(row.overrides and row.compared for row in rows))


def load_study(name: str) -> Study:
    """Return the study of conf/study or of a .yaml file; ValueError for a key, value or name that is none."""
    file = Path(name) if name.endswith(".yaml") else CONF / "study" / f"{name}.yaml"
    if not file.is_file():
        if name.endswith(".yaml"):
            raise ValueError(f"{name}: no such file")
        check_known("study", [name], choices("study"), ", or name a .yaml file of your own")
    written = read_yaml_file(file)
    try:
        study = Study.checked(written)
        _check_names(study)
    except ValueError as error:
        raise ValueError(f"study {name}: {error}") from None
    return study


def _check_names(study: Study) -> None:
    """Raise ValueError where a study names what there is not."""
    rows = study.rows.values()
    norms = [row.norm for row in rows if ":" not in row.norm]  # package.module:Class is looked for later
    known_norms = {*choices("norm")}
    if not known_norms.issuperset(norms):  # what is installed is looked through only then
        known_norms |= {*outside_norms()}
    columns = [task for row in rows for task in (*(row.only or ()), *row.column_overrides)]
    check_known("task", study.columns, sorted({*choices("task"), *published_tasks()}))
    check_known("norm", norms, sorted(known_norms))
    check_known("column", [*columns, *study.column_overrides], sorted(study.columns))
    if study.rule is not None:
        known = study.rows if study.rule.folds_overlap is None else norms
        check_known("row of the rule", study.rule.rows(), sorted({*known}))
        check_known("study of the rule", study.rule.with_columns_of, choices("study"))
        compared = study.rule.rows()
        if none := [label for label, row in study.rows.items() if row.undefined and label in compared]:
            raise ValueError(f"row {none[0]!r} of the rule has no runs: it is undefined")
    called = {title(norm): norm for norm in choices("norm")}
    for label, row in study.rows.items():
        if "|" in label:
            raise ValueError(f"{label!r}: | ends a column of a table; write another character")
        if (norm := called.get(title(label), row.norm)) != row.norm:
            raise ValueError(f"row {label!r}: tables call {norm} so, and its norm is {row.norm}: rename it")
    each_once([title(label) for label in study.rows])
    for pair in study.improvements:
        check_known("row of the improvements", pair, sorted(study.rows))
        if pair[0] == pair[1]:
            raise ValueError(f"improvement of {pair[0]!r} over itself")


def load_studies() -> dict[str, Study]:
    """Return every study of conf/study by its name, in the report's order; raises ValueError as above."""
    studies = {name: load_study(name) for name in choices("study")}
    return dict(sorted(studies.items(), key=lambda entry: entry[1].order))


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
    grid: StudyGrid = {}
    for task, (label, row) in product(study.columns, study.rows.items()):
        is_run = task in choices("task") and not row.undefined and (row.only is None or task in row.only)
        of_column, of_both = (one.column_overrides.get(task, ()) for one in (study, row))
        changes = (*study.overrides, *of_column, *row.overrides, *of_both)
        chosen = (f"task={task}", f"norm={row.norm}", f"scale={study.scale}", *changes)
        candidates: dict[str, Candidate] = {}
        try:
            for setting in (study.budget_of(label) or (None,)) if is_run else ():
                overrides = (*chosen, setting) if setting else chosen
                first = cached_experiment((*overrides, *settings), runs=runs)
                of_seeds = [first.model_copy(update={"seed": seed}) for seed in study.seeds]
                if same := candidates.get(of_seeds[0].digest):
                    raise ValueError(f"{same.setting} and {setting} of its budget are one setting")
                candidates[of_seeds[0].digest] = Candidate(overrides, of_seeds, setting)
        except ValueError as error:
            raise ValueError(f"row {label!r}: {error}") from None
        grid[label, task] = CellPlan(tuple(candidates.values()))
    return grid


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
