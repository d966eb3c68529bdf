"""The runs of a scorecard: paired seeds, added where they decide most, until the budget is spent."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from statistics import median

from adanorm.config.compose_cache import cached_experiment
from adanorm.launch.launch import run_all
from adanorm.launch.launchers import Launch
from adanorm.launch.next_seeds import Followed, Plan, Run
from adanorm.records import reader
from adanorm.scorecards.card import Card, Column, short
from adanorm.scorecards.columns import START_SECONDS, run_seconds, span
from adanorm.scorecards.scores import alike_on
from adanorm.studies.grid import Planned
from adanorm.verdicts.by_example import bring_up_to_date
from adanorm.verdicts.evidence import Evidence, Quantity, evidence
from adanorm.verdicts.preregistration import preregistration


@dataclass
class Trial:
    """What is run for a card, and where.

    `spent` are the seconds so far and `pace` how slow this machine is; `save` is told as they change.
    """

    card: Card
    runs: str
    launch: Launch
    most: int
    save: Callable[[float, float], None]
    spent: float = field(init=False)
    pace: float = field(init=False)
    failed: list[str] = field(init=False, default_factory=list)  # tasks with a run that failed
    lacking: dict[str, float] = field(init=False, default_factory=dict)  # seconds of planned runs, by task

    def __post_init__(self) -> None:
        self.spent, self.pace = self.card.spent, self.card.pace

    @property
    def norms(self) -> list[str]:
        """The norm and those it stands beside."""
        return [self.card.norm, *self.card.against]

    def run(self) -> str:
        """Make the runs that are lacking, and return why there are no more of them."""
        whole = [column for column in self.card.columns if self._has_planned_seeds(column)]
        ended = self._deciding_seeds(whole)
        return f"{ended}; a run failed on {', '.join(self.failed)}" if self.failed else ended

    def evidence(self, column: Column) -> Evidence:
        """Return the records of a column, the norms compared on its test examples before."""
        pairs = [(other, self.card.norm) for other in self.card.against]
        bring_up_to_date(column.task, column.scale, pairs, folder=self.runs)
        return self._records(column)

    def _records(self, column: Column) -> Evidence:
        return evidence(column.task, column.scale, runs=self.runs, norms=self.norms)

    def _has_planned_seeds(self, column: Column) -> bool:
        """Make the planned runs of a column where they fit the budget; return whether all are made.

        The cheapest column comes first: a seed of it tells how fast this machine is, and of its others
        as many are run as fit.
        """
        planned = preregistration().stopping.planned
        is_first = column == self.card.columns[0]
        for seeds in (1, *range(planned, 1, -1)) if is_first else (planned,):
            missing = self._missing_seeds(column, seeds)
            if self._seconds(missing) <= self._left or (seeds == 1 and not self.spent):
                self._make(missing)
        missing = self._missing_seeds(column, planned)
        if missing and column.task not in self.failed:
            self.lacking[column.task] = self._seconds(missing)
        return not missing

    def _deciding_seeds(self, whole: Sequence[Column]) -> str:
        """Add seeds until every comparison is decided, or the next seed is more than the budget has left.

        To columns that have their planned seeds.
        """
        if self.lacking and not whole:
            return "the planned seeds would take more than is left of the budget"
        scored = {column.task: column for column in whole if column.scale != "smoke"}
        following = [
            Followed(task, self.card.norm, other, "test", no_worse=False)
            for task in scored
            for other in self.card.against
            if other not in alike_on(self.card, task) and task not in self.failed
        ]
        if not following:
            return "every planned seed is run"
        out_of_reach = bool(self.lacking)
        while following:
            plan = Plan(
                following,
                seeds=range(1, preregistration().stopping.planned + 1),
                most=self.most,
                at_once=self.launch.workers,
            )
            tasks = dict.fromkeys(found.task for found in following)
            records: dict[tuple[str, Quantity], Evidence] = {
                (task, "test"): self.evidence(scored[task]) for task in tasks
            }
            batch = plan.progress(records).batch
            if batch is None:
                break
            if self._seconds(batch.runs) > self._left:
                out_of_reach = True
                dear = {run.task for run in batch.runs}
                following = [found for found in following if found.task not in dear]
                continue
            self._make(batch.runs)
            following = [found for found in following if found.task not in self.failed]
        if out_of_reach:
            return "the next seed would take more than is left of the budget"
        return "every comparison is decided, or has all seeds of the plan"

    @property
    def _left(self) -> float:
        return self.card.budget - self.spent

    def _missing_seeds(self, column: Column, seeds: int) -> list[Run]:
        """Return the runs that are lacking of the first seeds of every norm."""
        runs = (Run(column.task, norm, seed) for seed in range(1, seeds + 1) for norm in self.norms)
        return [run for run in runs if not reader.is_complete(self._planned(run).experiment.folder())]

    def _planned(self, run: Run) -> Planned:
        column = next(column for column in self.card.columns if column.task == run.task)
        chosen = [f"task={run.task}", f"norm={run.norm}", f"scale={column.scale}"]
        first = cached_experiment(chosen, runs=self.runs)
        arguments = [*chosen, f"seed={run.seed}", f"runs={self.runs}"]
        return Planned(short(run.norm), first.model_copy(update={"seed": run.seed}), arguments)

    def _seconds(self, runs: Sequence[Run]) -> float:
        """Return about how long runs take: by the records of their norm, else of others, else as declared."""
        found, known = 0.0, {column.task: self._records(column).norms for column in self.card.columns}
        declared = {column.task: run_seconds(column.hours) for column in self.card.columns}
        for run in runs:
            sides = known[run.task]
            recorded = [side.seconds for side in sides.values() if side.seconds is not None]
            own = sides[run.norm].seconds
            seconds = own if own is not None else median(recorded) if recorded else None
            found += declared[run.task] if seconds is None else seconds + START_SECONDS
        return self.pace * found / min(self.launch.workers, max(1, len(runs)))

    def _make(self, runs: Sequence[Run]) -> None:
        """Make runs, and say as each ends how long the others and the budget last."""
        runs = [run for run in runs if run.task not in self.failed]
        if not runs:
            return
        started, before, expected = time.monotonic(), self.spent, self._seconds(runs)
        say(f"{len(runs)} {'run' if len(runs) == 1 else 'runs'}, about {span(expected)}; {self._budget()}")
        left = count(len(runs) - 1, -1)

        def ended() -> None:
            self.spent = before + time.monotonic() - started
            self.save(self.spent, self.pace)
            if (more := next(left)) > 0:
                half = min(self.launch.workers - 1, more) / 2  # of what is being run is done
                rest = (self.spent - before) / (len(runs) - more + half) * (more - half)
                say(f"{more} of {len(runs)} runs left, about {span(rest)}; {self._budget()}")

        logs = Path(self.runs) / "studies" / f"scorecard-{time.strftime('%Y-%m-%d_%H-%M-%S')}-{os.getpid()}"
        logs = logs.with_name(f"{logs.name}-{time.monotonic_ns()}")
        with redirect_stdout(sys.stderr):
            failed = run_all([self._planned(run) for run in runs], self.launch, logs, ended=ended)
        self.failed += [
            run.experiment.task.name for run in failed if run.experiment.task.name not in self.failed
        ]
        self.spent = before + time.monotonic() - started
        self.pace *= (self.spent - before) / self._seconds(runs)  # which now are on record
        self.save(self.spent, self.pace)

    def _budget(self) -> str:
        return f"{span(max(0.0, self._left))} left of the budget"


def say(line: str) -> None:
    """Tell the user what goes on, where it is none of the result."""
    print(f"scorecard: {line}", file=sys.stderr, flush=True)
