"""A norm on trial: its runs and those it stands beside, made within a budget of time."""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from adanorm.config.compose import cached_experiment, compose_experiment
from adanorm.config.titles import counted
from adanorm.files import digest_of, write_files
from adanorm.launch.launch import Launch, run_all
from adanorm.launch.until import Followed, Run, as_it_comes, on_record, run_until_decided
from adanorm.norms import norm_factory
from adanorm.records import reader
from adanorm.records.folder import shown
from adanorm.scorecards.columns import START_SECONDS, Column, choose_columns, span
from adanorm.scorecards.observed import Observed, computed_alike, observe
from adanorm.studies.study import Planned
from adanorm.verdicts.cell import Cell, Evidence, evidence
from adanorm.verdicts.pair import Pair, pair
from adanorm.verdicts.preregistration import preregistration


class Score(NamedTuple):
    """The runs of a column by norm, and the norm beside each other norm; `alike` compute the same there."""

    column: Column
    runs: Mapping[str, Cell]
    pairs: Mapping[str, Pair]
    alike: Sequence[str]


@dataclass
class Trial:
    """A norm beside others, as they are named: paired seeds of columns, while a budget in seconds lasts."""

    norm: str
    against: tuple[str, ...]
    budget: float
    runs: str  # the folder of its records
    launch: Launch
    columns: list[Column]
    left_out: Sequence[str] = ()  # a line on each column that the budget or the data have no room for
    identity: str = ""  # digest of the norms' settings and code
    spent: float = 0.0  # seconds that norms of this identity have taken: kept in a file for a second start
    failed: list[str] = field(default_factory=list)  # tasks with a run that failed

    def __post_init__(self) -> None:
        self.norms = [self.norm, *self.against]

    @property
    def _scales(self) -> dict[str, str]:
        return {column.task: column.scale for column in self.columns}

    def _planned(self, run: Run) -> Planned:
        return as_it_comes(run, self._scales[run.task], self.runs)

    def run(self) -> str:
        """Make the runs that are lacking, and return why there are no more of them.

        Columns get their planned seeds; those that have them get seeds where they decide most. No seed
        is added to tell apart norms that compute the same.
        """
        whole = [column for column in self.columns if self._has_planned_seeds(column)]
        comparisons = [
            Followed(column.task, self.norm, other)
            for column in whole
            for other in self.against
            if column.scale != "smoke" and other not in self.alike(column)
        ]
        most, at_once = preregistration().stopping.most, self.launch.workers
        records = partial(on_record, scales=self._scales, runs=self.runs, norms=self.norms)
        _, is_spent = run_until_decided(
            comparisons, self._make, records, most=most, at_once=at_once, affordable=self._fits, say=say
        )
        if self.failed:
            return f"a run failed on {', '.join(self.failed)}"
        if is_spent or len(whole) < len(self.columns):
            return "the next seed would take more than is left of the budget"
        if not comparisons:
            return "every planned seed is run"
        return "every comparison is decided, or has all seeds of the plan"

    def _evidence(self, column: Column) -> Evidence:
        return evidence(column.task, column.scale, runs=self.runs, norms=self.norms)

    def scores(self) -> list[Score]:
        """Return what is on record of each column that has begun."""
        scores = []
        for column in self.columns:
            record = self._evidence(column)
            runs = {norm: record.norms[norm] for norm in self.norms}
            if any(side.runs for side in runs.values()):
                pairs = {other: pair(record, self.norm, other, goes_on=True) for other in self.against}
                scores.append(Score(column, runs, pairs, self.alike(column)))
        return scores

    def alike(self, column: Column) -> list[str]:
        """Return the norms that compute what the norm does, with the settings that the column's task has."""
        chosen = [f"task={column.task}", f"scale={column.scale}"]
        configs = {norm: cached_experiment([*chosen, f"norm={norm}"]).norm for norm in self.norms}
        return computed_alike(configs.pop(self.norm), configs)

    def _has_planned_seeds(self, column: Column) -> bool:
        """Make the planned runs of a column where they fit the budget; return whether all are made."""
        # The cheapest column comes first: a seed of it tells how fast this machine is.
        for seeds in (1, None) if column == self.columns[0] else (None,):
            missing = self._missing(column, seeds)
            is_begun = seeds == 1 and not self.spent
            if missing and column.task not in self.failed and (is_begun or self._fits(missing)):
                self._make(missing)
        return not self._missing(column)

    def _missing(self, column: Column, seeds: int | None = None) -> list[Run]:
        """Return the runs that are lacking of the first seeds, the planned ones, of every norm."""
        first = range(1, 1 + (seeds or preregistration().stopping.planned))
        runs = (Run(column.task, norm, seed) for seed in first for norm in self.norms)
        return [run for run in runs if not reader.is_complete(self._planned(run).experiment.folder())]

    def not_run(self) -> list[str]:
        """Return a line on each column without runs, or without all its planned seeds."""
        lacking = [
            f"{column.title}: the planned seeds that are lacking take about {span(self.seconds(runs))} here"
            for column in self.columns
            if (runs := self._missing(column)) and column.task not in self.failed
        ]
        return [*lacking, *self.left_out]

    def _fits(self, runs: Sequence[Run]) -> bool:
        return self.seconds(runs) <= self.budget - self.spent

    def seconds(self, runs: Sequence[Run]) -> float:
        """Return about how long runs take: as on record, or as declared, at this machine's pace."""
        declared = {column.task: 3600 * column.hours for column in self.columns}
        recorded = {}
        for column in self.columns:
            sides = (side.seconds for side in self._evidence(column).norms.values())
            if known := [seconds for seconds in sides if seconds is not None]:
                recorded[column.task] = median(known)
        pace = median(recorded[task] / declared[task] for task in recorded) if recorded else 1.0
        whole = sum(recorded.get(run.task, pace * declared[run.task]) + START_SECONDS for run in runs)
        return whole / min(self.launch.workers, max(1, len(runs)))

    def _make(self, runs: Sequence[Run]) -> list[Planned]:
        """Make runs and return those that failed; what they took is spent."""
        left = span(max(0.0, self.budget - self.spent))
        say(f"{counted(len(runs), 'run')} to make; {left} left of the budget")
        self.keep()
        started = time.monotonic()
        with redirect_stdout(sys.stderr):
            failed = run_all([*map(self._planned, runs)], self.launch, "scorecard", self.runs)
        self.spent += time.monotonic() - started
        self.keep()
        self.failed += {run.experiment.task.name for run in failed} - {*self.failed}
        return failed

    def keep(self) -> None:
        """Write down the seconds spent."""
        kept = {"norm": self.norm, "identity": self.identity, "spent": self.spent}
        path = path_of(self.norm, self.runs, ".json")
        write_files(path.parent, {path.name: json.dumps(kept)})


class Card(NamedTuple):
    """What a scorecard shows: a trial, the claims of the contract, which all hold, and what is observed."""

    trial: Trial
    checks: Sequence[str]
    observed: Observed
    ended: str  # why nothing more is run
    scores: Sequence[Score]


def prepare(norm: str, against: tuple[str, ...], budget: float, runs: str, launch: Launch) -> Trial:
    """Return a trial with its columns, nothing written; ValueError for no such norm or too small a budget."""
    norms = [norm, *against]
    composed = [compose_experiment([f"norm={name}"]) for name in norms]
    for run in composed:
        norm_factory(run.norm.choice)
    identity = digest_of({"norms": [run.identity["norm"] for run in composed]})
    path = path_of(norm, runs, ".json")
    kept: Any = json.loads(path.read_text("utf-8")) if path.exists() else {"norm": norm, "identity": ""}
    if kept["norm"] != norm:
        raise ValueError(f"{shown(path)}: is the scorecard of {kept['norm']}; choose another runs=FOLDER")
    spent = kept["spent"] if kept["identity"] == identity else 0.0
    columns, left_out = choose_columns(norms, budget=budget, workers=launch.workers)
    return Trial(norm, against, budget, runs, launch, columns, left_out, identity, spent)


def conduct(trial: Trial, checks: Sequence[str]) -> Card:
    """Return the finished card of a norm; `checks` are the claims of the contract that it keeps."""
    say("what the norms compute and cost")
    observed = observe(trial.norm, trial.against)
    ended = trial.run()
    return Card(trial, checks, observed, ended, trial.scores())


def short(norm: str) -> str:
    """Return what a norm is called: MyNorm of my_norms:MyNorm."""
    return norm.rpartition(":")[2]


def path_of(norm: str, runs: str, ending: str) -> Path:
    """Return the path of a file of a norm's scorecard."""
    return Path(runs) / "scorecards" / f"{short(norm)}{ending}"


def say(line: str) -> None:
    """Tell the user what goes on, where it is none of the result."""
    print(f"scorecard: {line}", file=sys.stderr, flush=True)
