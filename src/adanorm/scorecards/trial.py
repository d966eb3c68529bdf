"""A scorecard from its norm to its page, its runs made within a budget of time."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from adanorm.config.compose import cached_experiment, compose_experiment
from adanorm.config.digest import digest_of
from adanorm.config.titles import counted
from adanorm.files import write_whole
from adanorm.launch.launch import run_all
from adanorm.launch.launchers import Launch
from adanorm.launch.until import Followed, Run, on_record, pair_of, run_until_decided
from adanorm.norms import norm_factory
from adanorm.records import reader
from adanorm.records.folder import shown
from adanorm.scorecards.columns import START_SECONDS, Column, choose_columns, span
from adanorm.scorecards.observed import computed_alike, observe
from adanorm.scorecards.page import Card, Score, card_page, short, summary
from adanorm.studies.grid import Planned, plan_runs, study_grid
from adanorm.studies.study import Study
from adanorm.verdicts.cell import evidence
from adanorm.verdicts.preregistration import preregistration


class Request(NamedTuple):
    """What is asked for: a norm beside others, within a budget in seconds; records go into `runs`."""

    norm: str
    against: tuple[str, ...]
    budget: float
    runs: str
    launch: Launch

    @property
    def norms(self) -> list[str]:
        """The norm and those it stands beside."""
        return [self.norm, *self.against]

    @property
    def path(self) -> Path:
        """The path of the scorecard's files, less their endings."""
        return Path(self.runs) / "scorecards" / short(self.norm)


@dataclass
class Trial:
    """What is run of a request: paired seeds of its columns, while the budget lasts.

    `spent` are the seconds that norms of this `identity` have taken so far. They are kept in a file, so that
    a second start goes on from them.
    """

    request: Request
    columns: list[Column]
    left_out: list[str]
    identity: str
    spent: float
    failed: list[str] = field(default_factory=list)  # tasks with a run that failed

    def __post_init__(self) -> None:
        seeds = list(range(1, preregistration().stopping.most + 1))
        norms: Any = self.request.norms  # a list of norms is a mapping of rows too
        self._planned = dict[Run, Planned]()
        for column in self.columns:
            study = Study(title="-", rows=norms, columns=[column.task], scale=column.scale, seeds=seeds)
            for planned in plan_runs(study_grid(study, runs=self.request.runs)):
                self._planned[Run(column.task, planned.row, planned.experiment.seed)] = planned

    def run(self) -> str:
        """Make the runs that are lacking, and return why there are no more of them.

        Columns get their planned seeds; those that have them get seeds where they decide most. No seed
        is added to tell apart norms that compute the same.
        """
        whole = [column for column in self.columns if self._has_planned_seeds(column)]
        comparisons = [
            Followed(column.task, self.request.norm, other)
            for column in whole
            for other in self.request.against
            if column.scale != "smoke" and other not in self.alike(column)
        ]
        is_spent = run_until_decided(
            comparisons,
            self._make,
            partial(on_record, scales=self.scales, runs=self.request.runs, norms=self.request.norms),
            most=preregistration().stopping.most,
            at_once=self.request.launch.workers,
            affordable=self._fits,
            say=say,
        ).is_spent
        if self.failed:
            return f"a run failed on {', '.join(self.failed)}"
        if is_spent or len(whole) < len(self.columns):
            return "the next seed would take more than is left of the budget"
        if not comparisons:
            return "every planned seed is run"
        return "every comparison is decided, or has all seeds of the plan"

    @property
    def scales(self) -> dict[str, str]:
        """The scale of each column by its task."""
        return {column.task: column.scale for column in self.columns}

    def alike(self, column: Column) -> list[str]:
        """Return the norms that compute what the norm does, with the settings that the column's task has."""
        chosen = [f"task={column.task}", f"scale={column.scale}"]
        configs = {norm: cached_experiment([*chosen, f"norm={norm}"]).norm for norm in self.request.norms}
        return computed_alike(configs.pop(self.request.norm), configs)

    def _has_planned_seeds(self, column: Column) -> bool:
        """Make the planned runs of a column where they fit the budget; return whether all are made.

        The cheapest column comes first: a seed of it tells how fast this machine is.
        """
        planned = preregistration().stopping.planned
        for seeds in (1, planned) if column == self.columns[0] else (planned,):
            missing = self.missing(column, seeds)
            is_begun = seeds == 1 and not self.spent
            if missing and column.task not in self.failed and (is_begun or self._fits(missing)):
                self._make(missing)
        return not self.missing(column, planned)

    def missing(self, column: Column, seeds: int) -> list[Run]:
        """Return the runs that are lacking of the first seeds of every norm."""
        runs = (Run(column.task, norm, seed) for seed in range(1, seeds + 1) for norm in self.request.norms)
        return [run for run in runs if not reader.is_complete(self._planned[run].experiment.folder())]

    def _fits(self, runs: Sequence[Run]) -> bool:
        return self.seconds(runs) <= self.request.budget - self.spent

    def seconds(self, runs: Sequence[Run]) -> float:
        """Return about how long runs take: as those on record of their task, else as declared.

        What is declared is scaled by how slow this machine is in what is on record.
        """
        declared = {column.task: 3600 * column.hours for column in self.columns}
        recorded = {}
        for task, scale in self.scales.items():
            sides = evidence(task, scale, runs=self.request.runs, norms=self.request.norms).norms.values()
            if seconds := [side.seconds for side in sides if side.seconds is not None]:
                recorded[task] = median(seconds)
        pace = median(recorded[task] / declared[task] for task in recorded) if recorded else 1.0
        whole = sum(recorded.get(run.task, pace * declared[run.task]) + START_SECONDS for run in runs)
        return whole / min(self.request.launch.workers, max(1, len(runs)))

    def _make(self, runs: Sequence[Run]) -> list[Planned]:
        """Make runs and return those that failed; what they took is spent."""
        left = span(max(0.0, self.request.budget - self.spent))
        say(f"{counted(len(runs), 'run')} to make; {left} left of the budget")
        self.keep()
        started = time.monotonic()
        with redirect_stdout(sys.stderr):
            planned = [self._planned[run] for run in runs]
            failed = run_all(planned, self.request.launch, "scorecard", self.request.runs)
        self.spent += time.monotonic() - started
        self.keep()
        self.failed += {run.experiment.task.name for run in failed} - {*self.failed}
        return failed

    def keep(self) -> None:
        """Write down the seconds spent."""
        kept = {"norm": self.request.norm, "identity": self.identity, "spent": self.spent}
        path = self.request.path.with_suffix(".json")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(kept).encode())


def prepare(request: Request) -> Trial:
    """Return a trial as far as it is, its columns chosen; nothing is written.

    Raises ValueError for a norm that does not exist, and where the budget has room for nothing.
    """
    runs = [compose_experiment([f"norm={norm}"]) for norm in request.norms]
    for run in runs:
        norm_factory(run.norm)
    identity = digest_of({"norms": [run.identity()["norm"] for run in runs]})
    path = request.path.with_suffix(".json")
    try:
        kept = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        kept = {"norm": request.norm, "identity": identity, "spent": 0.0}
    if kept["norm"] != request.norm:
        raise ValueError(
            f"{shown(path)}: is the scorecard of {kept['norm']}; name another folder, runs=FOLDER"
        )
    spent = kept["spent"] if kept["identity"] == identity else 0.0
    columns, left_out = choose_columns(request.norms, budget=request.budget, workers=request.launch.workers)
    return Trial(request, columns, left_out, identity, spent)


def conduct(trial: Trial, checks: Sequence[str]) -> Card:
    """Return the finished card, whose page and summary are written."""
    request = trial.request
    say("what the norms compute and cost")
    observed = observe(request.norm, request.against)
    ended = trial.run()
    planned = preregistration().stopping.planned
    lacking = [
        f"{column.title}: the planned seeds that are lacking take about {span(trial.seconds(missing))} here"
        for column in trial.columns
        if (missing := trial.missing(column, planned)) and column.task not in trial.failed
    ]
    card = Card(
        norm=request.norm, against=request.against, identity=trial.identity, checks=checks,
        observed=observed, scores=score(trial),
        not_run=[*lacking, *trial.left_out], budget=request.budget, spent=trial.spent, ended=ended,
    )  # fmt: skip
    request.path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(request.path.with_suffix(".md"), summary(card).encode())
    write_whole(request.path.with_suffix(".html"), card_page(card).encode())
    return card


def score(trial: Trial) -> list[Score]:
    """Return what is on record of each column that has begun."""
    request = trial.request
    comparisons = [
        Followed(column.task, request.norm, other) for column in trial.columns for other in request.against
    ]
    records = on_record(comparisons, trial.scales, request.runs, norms=request.norms)
    scores = []
    for column in trial.columns:
        record = records[column.task, "test"]
        pairs = {
            other: pair_of(record, Followed(column.task, request.norm, other)) for other in request.against
        }
        runs = {norm: record.norms[norm] for norm in request.norms}
        if any(side.runs for side in runs.values()):
            scores.append(Score(column, runs, pairs, trial.alike(column)))
    return scores


def say(line: str) -> None:
    """Tell the user what goes on, where it is none of the result."""
    print(f"scorecard: {line}", file=sys.stderr, flush=True)
