"""Which seeds come next, and making them: until comparisons are decided or a budget is spent."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

from adanorm.config.titles import quantity_title, title
from adanorm.studies.grid import Planned
from adanorm.verdicts.cell import Evidence, Quantity, evidence
from adanorm.verdicts.pair import Pair, pair, paper_gap
from adanorm.verdicts.preregistration import preregistration
from adanorm.verdicts.sentences import listed

Added: TypeAlias = dict[tuple[str, str], frozenset[int]]  # seeds by task and norm
Records: TypeAlias = Mapping[tuple[str, Quantity], Evidence]


class Followed(NamedTuple):
    """A comparison of two norms on a task; `no_worse`: a claim asks for non-inferiority."""

    task: str
    better: str
    worse: str
    quantity: Quantity = "test"
    no_worse: bool = False


class Run(NamedTuple):
    """A run that a plan asks for."""

    task: str
    norm: str
    seed: int


@dataclass(frozen=True)
class Standing:
    """A comparison after the seeds that the plan has given it; `left` says why it gets no more."""

    comparison: Followed
    pair: Pair
    answer: str
    left: str = ""

    @property
    def is_open(self) -> bool:
        """Whether the plan may add seeds to it."""
        return self.answer == "open" and not self.left


@dataclass(frozen=True)
class Batch:
    """Runs to be made at a time, and the comparison whose seed was chosen first.

    `closes_in`: with how many more seeds that comparison probably closes; None: with none of the plan's.
    """

    runs: tuple[Run, ...]
    chosen: Standing
    closes_in: int | None


class Progress(NamedTuple):
    """Where a plan stands: every comparison, and what is run next; None where nothing is left to run."""

    standings: tuple[Standing, ...]
    batch: Batch | None


def followed(cells: Collection[tuple[str, str]], scale: str) -> list[Followed]:
    """Return the comparisons of claims of two norms among cells (task, norm), in their order.

    The cells have the scale's own settings: a claim that is read of other settings is not followed.
    """
    comparisons = []
    for claim in preregistration().claims:
        for task in claim.tasks_at(scale):
            better, worse = claim.norms(task)
            own = not claim.overrides(scale, task)
            if own and (task, better) in cells and (task, worse) in cells:
                no_worse = claim.bound == "no_worse"
                comparisons.append(Followed(task, better, worse, claim.quantity, no_worse))
    return list(dict.fromkeys(comparisons))


@dataclass(frozen=True)
class Plan:
    """Comparisons that get seeds until each is decided, has `most` of them, or cannot be decided.

    Every comparison starts with `seeds`. Then, time and again, the seed is added that decides most a
    core-hour. The plan reads nothing but the seeds it has added so far, so that `progress` repeats it from
    the records, whenever it was interrupted, and whatever else is on record.
    """

    comparisons: Sequence[Followed]
    seeds: Sequence[int]
    most: int
    at_once: int
    _known: dict[tuple[Followed, tuple[tuple[str, frozenset[int]], ...]], Standing] = field(
        default_factory=dict
    )

    def without(self, tasks: Collection[str]) -> Plan:
        """Return the plan less its comparisons on some tasks."""
        return replace(self, comparisons=[c for c in self.comparisons if c.task not in tasks])

    def progress(self, records: Records) -> Progress:
        """Return where the plan stands, by the evidence on every task and quantity it compares."""
        added: Added = {
            (c.task, norm): frozenset(self.seeds) for c in self.comparisons for norm in (c.better, c.worse)
        }
        while True:
            standings = tuple(self._standing(c, records[c.task, c.quantity], added) for c in self.comparisons)
            batch = self._next(standings, added)
            if batch is None:
                return Progress(standings, None)
            missing = [run for run in batch.runs if not _is_recorded(run, records)]
            if missing:
                return Progress(standings, replace(batch, runs=tuple(missing)))
            for run in batch.runs:
                added[run.task, run.norm] |= {run.seed}

    def _standing(self, comparison: Followed, record: Evidence, added: Added) -> Standing:
        seeds = {norm: chosen for (task, norm), chosen in added.items() if task == comparison.task}
        key = comparison, tuple(seeds.items())
        if key not in self._known:
            shared = seeds[comparison.better] & seeds[comparison.worse]
            norms = pair_of(record.of_seeds(seeds), comparison.better, comparison.worse)
            answer = norms.answer_of_no_loss if comparison.no_worse else norms.answer
            left = f"{len(shared)} seeds" if answer == "open" and len(shared) >= self.most else ""
            if not all(not side.setback for side in norms.sides):
                left = norms.remark
            self._known[key] = Standing(comparison, norms, answer, left)
        return self._known[key]

    def _next(self, standings: Sequence[Standing], added: Added) -> Batch | None:
        """Return the seeds that decide most a core-hour, as many as are run at once; None: all are done."""
        waiting = [standing for standing in standings if standing.is_open]
        ahead = dict(added)
        runs: list[Run] = []
        chosen = None
        while waiting and len(runs) < self.at_once:
            best = max(waiting, key=lambda standing: self._worth(standing, waiting, ahead))
            chosen = chosen or best
            new = _next_runs(best.comparison, ahead)
            waiting = [standing for standing in waiting if not _grows(standing.comparison, new, ahead)]
            runs += new
            for run in new:
                ahead[run.task, run.norm] |= {run.seed}
        return Batch(tuple(runs), chosen, self.closes_in(chosen.pair)) if chosen else None

    def _worth(self, standing: Standing, waiting: Sequence[Standing], added: Added) -> float:
        """Return how many comparisons a comparison's next seed decides, in expectation, a core-hour.

        It is one of the seeds that each comparison it adds to is still to get: until it probably closes,
        or until the plan ends.
        """
        new = _next_runs(standing.comparison, added)
        sides = dict(zip(standing.pair.norms, standing.pair.sides, strict=True))
        seconds = sum(sides[run.norm].seconds or 1.0 for run in new)
        grown = [other.pair for other in waiting if _grows(other.comparison, new, added)]
        left = [self.closes_in(norms) or max(1, self.most - len(norms.seeds)) for norms in grown]
        return sum(1 / seeds for seeds in left) * 3600 / seconds

    def closes_in(self, norms: Pair) -> int | None:
        """Return with how many more seeds a comparison has the registered power.

        At the margin or at the paper's gap, whichever is nearer. None where the plan has too few seeds.
        """
        closing: list[int | None] = []
        if norms.prospect is not None and norms.comparison is not None:
            closing.append(norms.prospect.to_equate)
            closing += [] if norms.comparison.papers_gap == "excluded" else [norms.prospect.to_find]
        ahead = [n for n in closing if n is not None and len(norms.seeds) < n <= self.most]
        return min(ahead) - len(norms.seeds) if ahead else None


def pair_of(record: Evidence, better: str, worse: str) -> Pair:
    """Return two norms of a task with a registered margin, as a plan that goes on looks at them."""
    margin = preregistration().margin(record.task, record.quantity)
    assert margin is not None, "of every task that is compared"
    paper = paper_gap(record, better, worse)
    norms = pair(record, better, worse, margin=margin, paper=paper, goes_on=True)
    assert norms is not None, "the task is there"
    return norms


def _next_runs(comparison: Followed, added: Added) -> list[Run]:
    """Return the runs that the next seed of a comparison lacks: one of a norm, or of both."""
    task, norms = comparison.task, (comparison.better, comparison.worse)
    shared = added[task, norms[0]] & added[task, norms[1]]
    seed = next(seed for seed in range(1, len(shared) + 2) if seed not in shared)
    return [Run(task, norm, seed) for norm in norms if seed not in added[task, norm]]


def _grows(comparison: Followed, new: Sequence[Run], added: Added) -> bool:
    """Return whether runs give a comparison a seed that both of its norms have."""
    task, norms = comparison.task, (comparison.better, comparison.worse)
    seeds = [
        added[task, norm] | {run.seed for run in new if (run.task, run.norm) == (task, norm)}
        for norm in norms
    ]
    return len(seeds[0] & seeds[1]) > len(added[task, norms[0]] & added[task, norms[1]])


def _is_recorded(run: Run, records: Records) -> bool:
    sides = (record.norms.get(run.norm) for (task, _), record in records.items() if task == run.task)
    return any(side is not None and run.seed in side.recorded for side in sides)


def on_record(
    comparisons: Sequence[Followed], scales: Mapping[str, str], runs: str | None, norms: Sequence[str] = ()
) -> Records:
    """Return the evidence on comparisons by task and quantity; `scales` are the tasks' own.

    `norms` are those that are not registered.
    """
    return {
        (c.task, c.quantity): evidence(c.task, scales[c.task], c.quantity, runs=runs, norms=norms)
        for c in comparisons
    }


class Ended(NamedTuple):
    """The runs of a plan that failed, and whether it had seeds left that were not affordable."""

    failed: list[Planned]
    is_spent: bool


def _say(line: str) -> None:
    print("\n".join(textwrap.wrap(line, 80, subsequent_indent="  ")), flush=True)


def run_until_decided(
    plan: Plan,
    make: Callable[[Sequence[Run]], Sequence[Planned]],
    records: Callable[[Sequence[Followed]], Records],
    *,
    affordable: Callable[[Sequence[Run]], bool] = lambda _: True,
    say: Callable[[str], None] = _say,
) -> Ended:
    """Add seeds until no comparison of a plan gets any more.

    `make` makes runs and returns those that failed. Comparisons on a task are left once a run of it failed or
    its next seed is not affordable. The next seeds follow from the records alone, so that an interrupted plan
    goes on as it would have.
    """
    failed: list[Planned] = []
    reported: dict[Followed, str] = {}
    is_spent = False
    while True:
        standings, batch = plan.progress(records(plan.comparisons))
        for standing in standings:
            line = _ended(standing)
            if line != reported.get(standing.comparison, ""):
                say(line or f"open again: {_named(standing)}")
                reported[standing.comparison] = line
        if batch is None:
            return Ended(failed, is_spent)
        if affordable(batch.runs):
            say(_next(batch, standings, plan.most))
            broken = make(batch.runs)
            failed += broken
            plan = plan.without({run.experiment.task.name for run in broken})
        else:
            is_spent = True
            plan = plan.without({run.task for run in batch.runs})


def _named(standing: Standing) -> str:
    comparison = standing.comparison
    quantity = "" if comparison.quantity == "test" else f", {quantity_title(comparison.quantity)}"
    norms = f"{title(comparison.better)} beside {title(comparison.worse)}"
    return f"{title(comparison.task)}, {norms}{quantity}"


def _ended(standing: Standing) -> str:
    """Return what a comparison came to; nothing while seeds are added to it."""
    if standing.is_open:
        return ""
    comparison = standing.pair.comparison
    detail = ""
    if comparison is not None:
        gap = f"{comparison.gap:+.3g} after {comparison.seeds} seeds"
        detail = f" ({gap}, margin {comparison.margin:g}; {standing.pair.why})"
    if standing.left:
        return f"left {standing.answer}: {_named(standing)}: {standing.left}{detail}"
    return f"decided: {_named(standing)}: {standing.answer}{detail}"


def _next(batch: Batch, standings: Sequence[Standing], most: int) -> str:
    """Return what is run next and why."""
    cells: dict[tuple[str, int], list[str]] = {}
    for run in batch.runs:
        cells.setdefault((run.task, run.seed), []).append(title(run.norm))
    runs = "; ".join(f"{title(task)} seed {seed} of {listed(norms)}" for (task, seed), norms in cells.items())
    count = sum(standing.is_open for standing in standings)
    closing = f"{batch.closes_in} more are" if batch.closes_in else f"no number up to {most} is"
    why = f"where a core-hour decides most; {closing} likely to close {_named(batch.chosen)}"
    return f"{count} open; next {runs}, {why}"
