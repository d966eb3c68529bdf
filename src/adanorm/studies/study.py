"""Studies: grids in conf/study, which say what to run and to print, and their runs."""

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
from adanorm.studies.rule import Rule


def _in_one_line(text: str) -> str:
    if not text or text != text.strip() or not text.isprintable():
        raise ValueError(f"{text!r}: write a word or more, in one line, without space around them")
    return text


Line = Annotated[str, AfterValidator(_in_one_line)]
# Overrides in Hydra's syntax; one that could turn a run into another cell's is refused.
Changes = Annotated[tuple[str, ...], AfterValidator(check_fixed)]
Overrides = Annotated[Changes, AfterValidator(check_each_once)]
Budget = Annotated[Changes, EachOnce]  # each is tried alone

# readme: README's table; curves: for every task at this scale; norm-guide: its scores; latex: also
# as TeX.
Role = Literal["readme", "curves", "figure", "norm-guide", "latex", "square"]


class StudyRow(Config):
    """A row of a study: a norm, and what else sets the row apart."""

    norm: str
    overrides: Overrides = ()
    column_overrides: dict[str, Overrides] = Field(
        default_factory=dict
    )  # for its runs of one column
    only: tuple[str, ...] | None = None  # the columns it has runs in; null: all
    at: float | None = None  # the value of what the study goes over, such as a batch size
    line: str | None = None  # the label of its line in the figure; null: its norm's
    panel: str | None = (
        None  # its panel in the figure, named for what its rows share; null: every panel
    )
    undefined: str | None = None  # why it can have no runs
    budget: Budget = ()  # overrides tried in its cells; every row tries the same number
    compared: bool = True  # whether with the paper's numbers; false: only shown beside them


class Study(Config):
    """Rows x tasks (columns) x seeds at one scale."""

    title: Line
    rows: Annotated[dict[Line, StudyRow], Field(min_length=1)]  # in YAML also a list of norms
    columns: Annotated[list[str], Field(min_length=1), EachOnce]
    scale: Scale
    seeds: Seeds
    improvements: tuple[tuple[str, str], ...] = ()  # (from, to): a table row with their difference
    quote: str | None = None  # why the paper's numbers stand beside runs that are not comparable
    overrides: Overrides = ()  # for every run
    column_overrides: dict[str, Overrides] = Field(
        default_factory=dict
    )  # for every run of one column
    budget: Budget = ()  # overrides tried in every cell; the best by validation is shown
    over: str | None = None  # what the rows' `at` counts; the figure has it on its x-axis
    draws: tuple[Literal["test", "memorized", "recovered"], ...] = (
        "test",
    )  # what the figure draws over it
    shows: Literal["scores", "curves"] = (
        "scores"  # what its figures draw; curves: one figure per column
    )
    roles: tuple[Role, ...] = ()  # what is made of its runs besides its table
    rule: Rule | None = None  # how its rows are compared, written before any run
    order: int = 100  # its position in the report; studies with the same order by name

    @field_validator("rows", mode="before")
    @classmethod
    def _norms_are_rows(cls, rows: Any) -> Any:
        if isinstance(rows, list):
            if others := [row for row in rows if not isinstance(row, str)]:
                raise ValueError(
                    f"{others[0]!r} in a list of norms: rows with labels are a mapping"
                )
            return {norm: {"norm": norm} for norm in each_once(rows)}
        return rows

    @model_validator(mode="after")
    def _rows_differ_and_try_as_many_settings(self) -> Study:
        labels: dict[object, str] = {}
        for label, row in self.rows.items() if self.over is not None else ():
            if row.at is None:
                raise ValueError(f"row {label!r}: lacks `at`, its {self.over}")
            if (
                other := labels.setdefault((row.line or row.norm, row.at, row.panel), label)
            ) != label:
                at = f"{self.over} {row.at:g}"
                raise ValueError(
                    f"rows {other!r} and {label!r}: one norm at {at}: give each a panel"
                )
        for task in self.columns if self.shows == "curves" else ():
            norms = [row.norm for row in self.rows.values() if row.only is None or task in row.only]
            if len(set(norms)) < len(norms):
                raise ValueError(
                    f"column {task!r}: two rows have the same norm, so their curves look alike"
                )
        if len(counts := sorted({len(self.budget_of(label)) for label in self.rows})) > 1:
            sizes = ", ".join(map(str, counts))
            raise ValueError(
                f"rows with budgets of {sizes} settings: give each row the same number"
            )
        return self

    def budget_of(self, label: str) -> tuple[str, ...]:
        """Return the overrides tried in the cells of a row; () without a budget."""
        return self.rows[label].budget or self.budget

    @property
    def tries(self) -> int:
        """How many settings are tried in a cell; 0 without a budget."""
        return max(len(self.budget_of(label)) for label in self.rows)

    @property
    def varies(self) -> bool:
        """Whether a compared run has overrides or a budget, apart from its column's."""
        rows = self.rows.values()
        return bool(
            self.overrides or self.tries or any(row.overrides and row.compared for row in rows)
        )


def load_study(name: str) -> Study:
    """Return a study from conf/study or a .yaml file.

    Raises ValueError for an unknown name, key or value.
    """
    file = Path(name) if name.endswith(".yaml") else CONF / "study" / f"{name}.yaml"
    if not file.is_file():
        if name.endswith(".yaml"):
            raise ValueError(f"{name}: no such file")
        check_known("study", [name], choices("study"), ", or name a .yaml file of your own")
    content = read_yaml_file(file)
    try:
        study = Study.checked(content)
        _check_names(study)
    except ValueError as error:
        raise ValueError(f"study {name}: {error}") from None
    return study


def _check_names(study: Study) -> None:
    """Raise ValueError if a study names a task, norm, row, column or study that does not exist."""
    rows = study.rows.values()
    norms = [
        row.norm for row in rows if ":" not in row.norm
    ]  # package.module:Class is imported later
    known_norms = {*choices("norm")}
    if not known_norms.issuperset(norms):  # installed packages are searched only if needed
        known_norms |= {*outside_norms()}
    columns = [task for row in rows for task in (*(row.only or ()), *row.column_overrides)]
    check_known("task", study.columns, choices("task"))
    check_known("norm", norms, sorted(known_norms))
    check_known("column", [*columns, *study.column_overrides], sorted(study.columns))
    if study.rule is not None:
        row_names = study.rows if study.rule.folds_overlap is None else norms
        check_known("row of the rule", study.rule.rows(), sorted({*row_names}))
        check_known("study of the rule", study.rule.with_columns_of, choices("study"))
        compared = {*study.rule.rows()}
        if undefined := [
            label for label, row in study.rows.items() if row.undefined and label in compared
        ]:
            raise ValueError(f"row {undefined[0]!r} of the rule has no runs: it is undefined")
    norm_by_title = {title(norm): norm for norm in choices("norm")}
    for label, row in study.rows.items():
        if "|" in label:
            raise ValueError(f"{label!r}: | ends a column of a table; write another character")
        if (norm := norm_by_title.get(title(label), row.norm)) != row.norm:
            raise ValueError(
                f"row {label!r}: tables call {norm} this; its norm is {row.norm}: rename it"
            )
    each_once([title(label) for label in study.rows])
    for pair in study.improvements:
        check_known("row of the improvements", pair, sorted(study.rows))
        if pair[0] == pair[1]:
            raise ValueError(f"improvement of {pair[0]!r} over itself")


def load_studies() -> dict[str, Study]:
    """Return every study of conf/study by its name, in the report's order.

    Raises ValueError as above.
    """
    studies = {name: load_study(name) for name in choices("study")}
    return dict(sorted(studies.items(), key=lambda entry: entry[1].order))


@dataclass(frozen=True)
class Candidate:
    """One setting of a cell: runs that differ only in their seed."""

    overrides: tuple[str, ...]  # the command line of its runs without the seed
    runs: list[Experiment]  # in the order of the study's seeds
    setting: str | None = None  # the override of the budget that it tries; None without a budget


@dataclass(frozen=True)
class CellPlan:
    """The runs of a cell."""

    candidates: tuple[Candidate, ...]  # one, or one per override of the budget; empty: no runs

    @property
    def runs(self) -> list[Experiment]:
        """The runs of all candidates."""
        return [run for candidate in self.candidates for run in candidate.runs]


StudyGrid: TypeAlias = dict[tuple[str, str], CellPlan]  # by the row's label and the task


def study_grid(study: Study, *, runs: str | None = None, settings: Sequence[str] = ()) -> StudyGrid:
    """Return the runs of every cell, each with `settings`.

    Raises ValueError with the name of a wrong row.
    """
    grid: StudyGrid = {}
    for task, (label, row) in product(study.columns, study.rows.items()):
        is_run = not row.undefined and (row.only is None or task in row.only)
        column_changes, cell_changes = (one.column_overrides.get(task, ()) for one in (study, row))
        changes = (*study.overrides, *column_changes, *row.overrides, *cell_changes)
        base = (f"task={task}", f"norm={row.norm}", f"scale={study.scale}", *changes)
        candidates: dict[str, Candidate] = {}
        try:
            for setting in (study.budget_of(label) or (None,)) if is_run else ():
                overrides = (*base, setting) if setting else base
                first = cached_experiment((*overrides, *settings), runs=runs)
                if same := candidates.get(first.digest):
                    raise ValueError(f"{same.setting} and {setting} of its budget are one setting")
                runs_by_seed = first.with_seeds(study.seeds)
                candidates[first.digest] = Candidate(overrides, runs_by_seed, setting)
        except ValueError as error:
            raise ValueError(f"row {label!r}: {error}") from None
        grid[label, task] = CellPlan(tuple(candidates.values()))
    return grid


class Planned(NamedTuple):
    """A run of a study and the command line that makes it."""

    row: str
    experiment: Experiment
    arguments: list[str]

    @property
    def name(self) -> str:
        """Its name in messages, such as 'rt adanorm seed 1'."""
        return f"{self.experiment.task.name} {self.row} seed {self.experiment.seed}"


def plan_runs(grid: StudyGrid, settings: Sequence[str] = ()) -> list[Planned]:
    """Return a study's runs, first seeds of all cells first; a run that rows share occurs once."""
    planned: dict[Path, tuple[int, Planned]] = {}
    for (label, _), plan in grid.items():
        for candidate in plan.candidates:
            for turn, run in enumerate(candidate.runs):
                folder = [f"runs={run.runs}"] if run.runs else []
                arguments = [*candidate.overrides, f"seed={run.seed}", *settings, *folder]
                planned.setdefault(run.folder(), (turn, Planned(label, run, arguments)))
    return [run for _, run in sorted(planned.values(), key=lambda entry: entry[0])]
