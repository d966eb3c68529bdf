"""A norm on trial: its runs and those of the norms beside it, made within a budget of time."""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from adanorm.config.compose import cached_experiment, compose_experiment
from adanorm.config.titles import counted
from adanorm.files import digest_of, write_files
from adanorm.launch.launch import Launch, run_all
from adanorm.norms import norm_factory
from adanorm.records import reader
from adanorm.records.folder import path_text
from adanorm.scorecards.columns import START_SECONDS, Column, choose_columns, span
from adanorm.scorecards.observed import Observed, computed_alike, observe
from adanorm.studies.study import Planned
from adanorm.verdicts.cell import Cell
from adanorm.verdicts.evidence import Evidence, evidence
from adanorm.verdicts.pair import Pair, pair
from adanorm.verdicts.preregistration import first_plan, preregistration


class Run(NamedTuple):
    """A run that a comparison asks for."""

    task: str
    norm: str
    seed: int


class Score(NamedTuple):
    """A column's cells by norm, and the pairs with each other norm.

    Those in `alike` compute the same.
    """

    column: Column
    runs: Mapping[str, Cell]
    pairs: Mapping[str, Pair]
    alike: Sequence[str]


@dataclass
class Trial:
    """A norm beside others: runs of columns with paired seeds, while a budget in seconds lasts."""

    norm: str
    against: tuple[str, ...]
    budget: float
    runs: str  # the folder of its records
    launch: Launch
    columns: list[Column]
    left_out: Sequence[
        str
    ] = ()  # one line per task that the budget, the data or the norms rule out
    identity: str = ""  # digest of the norms' settings and code
    spent: float = 0.0  # seconds that this identity has taken; kept in a file for a second start
    failed: list[str] = field(default_factory=list)  # tasks with a run that failed

    def __post_init__(self) -> None:
        self.norms = [self.norm, *self.against]

    @property
    def _scales(self) -> dict[str, str]:
        return {column.task: column.scale for column in self.columns}

    def _planned(self, run: Run) -> Planned:
        """Return a run with its norm's own settings."""
        choice = [f"task={run.task}", f"norm={run.norm}", f"scale={self._scales[run.task]}"]
        first = cached_experiment(choice, runs=self.runs)
        arguments = [*choice, f"seed={run.seed}", f"runs={self.runs}"]
        return Planned(
            run.norm,
            first.model_copy(update={"seed": run.seed}),
            arguments,
        )

    def run(self) -> str:
        """Make the missing runs, the planned seeds of each column first.

        Return why no more are made.
        """
        complete = [column for column in self.columns if self._made_planned_seeds(column)]
        is_spent = len(complete) < len(self.columns)
        for column in complete:  # the cheapest first
            while column.task not in self.failed and (runs := self._next_seed(column)):
                if not self._fits(runs):
                    is_spent = True
                    break
                self._make(runs)
        if self.failed:
            return f"a run failed on {', '.join(self.failed)}"
        if is_spent:
            return "the next seed would take more than is left of the budget"
        if all(column.scale == "smoke" for column in complete):
            return "every planned seed is run"
        return "every comparison is decided, or has all seeds of the plan"

    def _next_seed(self, column: Column) -> list[Run]:
        """Return the runs of one more seed for the open comparisons of a column; perhaps none."""
        if column.scale == "smoke":  # synthetic data decide nothing
            return []
        records = self._evidence(column)
        seeds = range(1, preregistration().stopping.most + 1)
        for other in self.against:
            norms = pair(records, self.norm, other)
            has_setback = any(side.setback for side in norms.sides)
            is_open = norms.answer in ("open", "not run") and not has_setback
            if not is_open or other in self.alike(column):
                continue
            for seed in seeds:
                runs = [
                    Run(
                        column.task,
                        norm,
                        seed,
                    )
                    for norm in (self.norm, other)
                ]
                missing = [run for run in runs if not self._is_complete(run)]
                if missing:
                    return missing
        return []

    def _is_complete(self, run: Run) -> bool:
        return reader.is_complete(self._planned(run).experiment.folder())

    def _evidence(self, column: Column) -> Evidence:
        plan = first_plan(column.task, column.scale).going_on
        return evidence(
            plan,
            runs=self.runs,
            norms=self.norms,
        )

    def scores(self) -> list[Score]:
        """Return the score of each column that has runs."""
        scores = []
        for column in self.columns:
            records = self._evidence(column)
            runs = {norm: records.norms[norm] for norm in self.norms}
            if any(side.runs for side in runs.values()):
                pairs = {
                    other: pair(
                        records,
                        self.norm,
                        other,
                    )
                    for other in self.against
                }
                scores.append(
                    Score(
                        column,
                        runs,
                        pairs,
                        self.alike(column),
                    )
                )
        return scores

    def alike(self, column: Column) -> list[str]:
        """Return the other norms that compute the same, with the settings of the column's task."""
        overrides = [f"task={column.task}", f"scale={column.scale}"]
        configs = {
            norm: cached_experiment([*overrides, f"norm={norm}"]).norm for norm in self.norms
        }
        return computed_alike(configs.pop(self.norm), configs)

    def _made_planned_seeds(self, column: Column) -> bool:
        """Make the planned runs of a column that fit the budget.

        Return whether all of them exist.
        """
        # The cheapest column comes first: one seed of it shows how fast this machine is.
        for seeds in (1, None) if column == self.columns[0] else (None,):
            missing = self._missing(column, seeds)
            is_start = seeds == 1 and not self.spent
            if missing and column.task not in self.failed and (is_start or self._fits(missing)):
                self._make(missing)
        return not self._missing(column)

    def _missing(self, column: Column, seeds: int | None = None) -> list[Run]:
        """Return the missing runs of every norm, for the first `seeds` seeds or the planned ones."""
        first = range(1, 1 + (seeds or preregistration().stopping.planned))
        runs = (
            Run(
                column.task,
                norm,
                seed,
            )
            for seed in first
            for norm in self.norms
        )
        return [run for run in runs if not self._is_complete(run)]

    def not_run(self) -> list[str]:
        """Return one line per column that lacks planned seeds, and per task left out."""
        lacking = [
            f"{column.title}: the planned seeds that are lacking take about {span(self.seconds(runs))} here"
            for column in self.columns
            if (runs := self._missing(column)) and column.task not in self.failed
        ]
        return [*lacking, *self.left_out]

    def _fits(self, runs: Sequence[Run]) -> bool:
        return self.seconds(runs) <= self.budget - self.spent

    def seconds(self, runs: Sequence[Run]) -> float:
        """Return about how many seconds runs take: as on record, or as declared at this pace."""
        declared = {column.task: 3600 * column.hours for column in self.columns}
        recorded = {}
        for column in self.columns:
            sides = (side.seconds for side in self._evidence(column).norms.values())
            if times := [seconds for seconds in sides if seconds is not None]:
                recorded[column.task] = median(times)
        pace = median(recorded[task] / declared[task] for task in recorded) if recorded else 1.0
        total = sum(
            recorded.get(run.task, pace * declared[run.task]) + START_SECONDS for run in runs
        )
        return total / min(self.launch.workers, max(1, len(runs)))

    def _make(self, runs: Sequence[Run]) -> list[Planned]:
        """Make runs, count their time as spent, and return those that failed."""
        left = span(max(0.0, self.budget - self.spent))
        say(f"{counted(len(runs), 'run')} to make; {left} left of the budget")
        self.keep()
        started = time.monotonic()
        with redirect_stdout(sys.stderr):
            failed = run_all(
                [*map(self._planned, runs)],
                self.launch,
                "scorecard",
                self.runs,
            )
        self.spent += time.monotonic() - started
        self.keep()
        self.failed += {run.experiment.task.name for run in failed} - {*self.failed}
        return failed

    def keep(self) -> None:
        """Write the seconds spent into a file."""
        state = {"norm": self.norm, "identity": self.identity, "spent": self.spent}
        path = path_of(self.norm, self.runs, ".json")
        write_files(path.parent, {path.name: json.dumps(state)})


class Card(NamedTuple):
    """What a scorecard shows: the trial, the contract's checks, the observations, the scores."""

    trial: Trial
    checks: Sequence[str]
    observed: Observed
    ended: str  # why no more runs were made
    scores: Sequence[Score]


def prepare(norm: str, against: tuple[str, ...], budget: float, runs: str, launch: Launch) -> Trial:
    """Return a trial, writing nothing.

    Raises ValueError for an unknown norm or too small a budget.
    """
    norms = [norm, *against]
    composed = [compose_experiment([f"norm={name}"]) for name in norms]
    for run in composed:
        norm_factory(run.norm.choice)
    identity = digest_of({"norms": [run.identity["norm"] for run in composed]})
    path = path_of(norm, runs, ".json")
    state: Any = (
        json.loads(path.read_text("utf-8")) if path.exists() else {"norm": norm, "identity": ""}
    )
    if state["norm"] != norm:
        raise ValueError(
            f"{path_text(path)}: is the scorecard of {state['norm']}; choose another runs=FOLDER"
        )
    spent = state["spent"] if state["identity"] == identity else 0.0
    columns, left_out = choose_columns(
        norms,
        budget=budget,
        workers=launch.workers,
    )
    return Trial(
        norm,
        against,
        budget,
        runs,
        launch,
        columns,
        left_out,
        identity,
        spent,
    )


def conduct(trial: Trial, checks: Sequence[str]) -> Card:
    """Return the finished card of a norm; `checks` are the checks of the contract, all passed."""
    say("what the norms compute and cost")
    observed = observe(trial.norm, trial.against)
    ended = trial.run()
    return Card(
        trial,
        checks,
        observed,
        ended,
        trial.scores(),
    )


def short(norm: str) -> str:
    """Return a norm's short name: MyNorm for my_norms:MyNorm."""
    return norm.rpartition(":")[2]


def path_of(norm: str, runs: str, ending: str) -> Path:
    """Return the path of a file of a norm's scorecard."""
    return Path(runs) / "scorecards" / f"{short(norm)}{ending}"


def say(line: str) -> None:
    """Tell the user about progress, on stderr: standard output is for the result."""
    print(f"scorecard: {line}", file=sys.stderr, flush=True)
