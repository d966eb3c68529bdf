"""Studies: grids in conf/study, which say what to run and to print, and their runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from operator import itemgetter
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
from adanorm.config.values import read_yaml_file
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
    # For its runs of one column.
    column_overrides: dict[str, Overrides] = Field(default_factory=dict)
    only: tuple[str, ...] | None = None  # the columns it has runs in; null: all
    at: float | None = None  # the value of what the study goes over, such as a batch size
    line: str | None = None  # the label of its line in the figure; null: its norm's
    # Its panel in the figure, named for what its rows share; null: every panel.
    panel: str | None = None
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
    # For every run of one column.
    column_overrides: dict[str, Overrides] = Field(default_factory=dict)
    budget: Budget = ()  # overrides tried in every cell; the best by validation is shown
    over: str | None = None  # what the rows' `at` counts; the figure has it on its x-axis
    # What the figure draws over it.
    draws: tuple[Literal["test", "memorized", "recovered"], ...] = ("test",)
    # What its figures draw; curves: one figure per column.
    shows: Literal["scores", "curves"] = "scores"
    roles: tuple[Role, ...] = ()  # what is made of its runs besides its table
    rule: Rule | None = None  # how its rows are compared, written before any run
    order: int = 100  # its position in the report; studies with the same order by name

    @field_validator("rows", mode="before")
    @classmethod
    def _norms_are_rows(cls, rows: Any) -> Any:
        if not isinstance(rows, list):
            return rows
        for row in rows:
            if not isinstance(row, str):
                raise ValueError(f"{row!r} in a list of norms: rows with labels are a mapping")
        return {norm: {"norm": norm} for norm in each_once(rows)}

    @model_validator(mode="after")
    def _rows_differ_and_try_as_many_settings(self) -> Study:
        if self.over is not None:
            self._check_lines(self.over)
        if self.shows == "curves":
            for task in self.columns:
                self._check_curves(task)
        counts = sorted({len(self.budget_of(label)) for label in self.rows})
        if len(counts) > 1:
            sizes = ", ".join(map(str, counts))
            raise ValueError(
                f"rows with budgets of {sizes} settings: give each row the same number"
            )
        return self

    def _check_lines(self, over: str) -> None:
        """Raise ValueError if two rows are one point of the figure over `over`."""
        labels: dict[object, str] = {}
        for label, row in self.rows.items():
            if row.at is None:
                raise ValueError(f"row {label!r}: lacks `at`, its {over}")
            first = labels.setdefault((row.line or row.norm, row.at, row.panel), label)
            if first != label:
                at = f"{over} {row.at:g}"
                raise ValueError(
                    f"rows {first!r} and {label!r}: one norm at {at}: give each a panel"
                )

    def _check_curves(self, task: str) -> None:
        """Raise ValueError if two rows have the same curve in a column's figure."""
        norms = [row.norm for row in self.rows.values() if row.only is None or task in row.only]
        if len(set(norms)) < len(norms):
            raise ValueError(
                f"column {task!r}: two rows have the same norm, so their curves look alike"
            )

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
        # In another precision it is the same experiment; its cells are marked.
        changes = [entry for entry in self.overrides if not entry.startswith("precision=")]
        return bool(changes or self.tries or any(row.overrides and row.compared for row in rows))


def load_study(name: str) -> Study:
    """Return a study from conf/study or a .yaml file.

    Raises ValueError for an unknown name, key or value.
    """
    file = Path(name) if name.endswith(".yaml") else CONF / "study" / f"{name}.yaml"
    if not file.is_file():
        if name.endswith(".yaml"):
            raise ValueError(f"{name}: no such file")
        check_known(
            "study",
            [name],
            choices("study"),
            ", or name a .yaml file of your own",
        )
    content = read_yaml_file(file)
    try:
        study = Study.checked(content)
        _check_names(study)
    except ValueError as error:
        raise ValueError(f"study {name}: {error}") from None
    return study


def _check_names(study: Study) -> None:
    """Raise ValueError if a study names a task, norm, row, column or study that does not exist."""
    norms = [row.norm for row in study.rows.values() if ":" not in row.norm]  # imported later
    known_norms = {*choices("norm")}
    if not known_norms.issuperset(norms):  # installed packages are searched only if needed
        known_norms |= {*outside_norms()}
    columns = [*study.column_overrides]
    for row in study.rows.values():
        columns += [*(row.only or ()), *row.column_overrides]
    check_known(
        "task",
        study.columns,
        choices("task"),
    )
    check_known(
        "norm",
        norms,
        sorted(known_norms),
    )
    check_known("column", columns, sorted(study.columns))
    _check_rule(study, norms)
    norm_by_title = {title(norm): norm for norm in choices("norm")}
    for label, row in study.rows.items():
        if "|" in label:
            raise ValueError(f"{label!r}: | ends a column of a table; write another character")
        norm = norm_by_title.get(title(label), row.norm)
        if norm != row.norm:
            raise ValueError(
                f"row {label!r}: tables call {norm} this; its norm is {row.norm}: rename it"
            )
    each_once([title(label) for label in study.rows])
    for pair in study.improvements:
        check_known("row of the improvements", pair, sorted(study.rows))
        if pair[0] == pair[1]:
            raise ValueError(f"improvement of {pair[0]!r} over itself")


def _check_rule(study: Study, norms: Sequence[str]) -> None:
    if study.rule is None:
        return
    row_names = study.rows if study.rule.folds_overlap is None else norms
    compared = {*study.rule.rows()}
    check_known(
        "row of the rule",
        study.rule.rows(),
        sorted({*row_names}),
    )
    check_known("study of the rule", study.rule.with_columns_of, choices("study"))
    for label, row in study.rows.items():
        if row.undefined and label in compared:
            raise ValueError(f"row {label!r} of the rule has no runs: it is undefined")


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
    grid = {}
    for task, (label, row) in product(study.columns, study.rows.items()):
        candidates: tuple[Candidate, ...] = ()
        try:
            if not row.undefined and (row.only is None or task in row.only):
                candidates = _candidates(
                    study,
                    label,
                    task,
                    runs,
                    settings,
                )
        except ValueError as error:
            raise ValueError(f"row {label!r}: {error}") from None
        grid[label, task] = CellPlan(candidates)
    return grid


def _candidates(
    study: Study, label: str, task: str, runs: str | None, settings: Sequence[str]
) -> tuple[Candidate, ...]:
    """Return the settings that a cell tries: one, or one per override of the budget."""
    row = study.rows[label]
    base = (
        f"task={task}",
        f"norm={row.norm}",
        f"scale={study.scale}",
        *study.overrides,
        *study.column_overrides.get(task, ()),
        *row.overrides,
        *row.column_overrides.get(task, ()),
    )
    candidates: dict[str, Candidate] = {}
    for setting in study.budget_of(label) or (None,):
        overrides = (*base, setting) if setting else base
        first = cached_experiment((*overrides, *settings), runs=runs)
        cell_runs = first.with_seeds(study.seeds)
        digest = cell_runs[0].digest
        if digest in candidates:
            same = candidates[digest].setting
            raise ValueError(f"{same} and {setting} of its budget are one setting")
        candidates[digest] = Candidate(overrides, cell_runs, setting)
    return tuple(candidates.values())


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
                arguments = [*candidate.overrides, f"seed={run.seed}", *settings]
                if run.runs:
                    arguments.append(f"runs={run.runs}")
                entry = turn, Planned(label, run, arguments)
                planned.setdefault(run.folder(), entry)
    in_turn = sorted(planned.values(), key=itemgetter(0))
    return [run for _, run in in_turn]
