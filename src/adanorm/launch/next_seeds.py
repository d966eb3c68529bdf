"""Which seeds to run next so that the comparisons of claims are decided: replayed from the records."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from adanorm.verdicts.evidence import Evidence, Quantity
from adanorm.verdicts.pair import Pair, pair, paper_gap
from adanorm.verdicts.preregistration import preregistration

Added: TypeAlias = dict[tuple[str, str], frozenset[int]]  # seeds by task and norm


class Followed(NamedTuple):
    """A comparison that a claim makes on a task; `no_worse`: the claim asks for non-inferiority."""

    task: str
    better: str
    worse: str
    quantity: Quantity
    no_worse: bool


class Run(NamedTuple):
    """A run that a plan asks for."""

    task: str
    norm: str
    seed: int


@dataclass(frozen=True)
class Standing:
    """A comparison after the seeds that the plan has given it.

    `answer` is *open* as long as seeds are to be added; `left` says why none are although it is open.
    """

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

    `closes_in`: with how many seeds more that comparison probably closes; None: with none of the plan's.
    """

    runs: tuple[Run, ...]
    chosen: Standing
    closes_in: int | None


@dataclass(frozen=True)
class Progress:
    """Where a plan stands: every comparison, and what is run next; None where nothing is left to run."""

    standings: tuple[Standing, ...]
    batch: Batch | None


def followed(cells: Collection[tuple[str, str]], scale: str) -> list[Followed]:
    """Return the comparisons of claims of two norms among cells (task, norm), in their order.

    Of cells whose settings are the scale's own: a claim that is read of other settings is not followed.
    """
    found = []
    for claim in preregistration().claims:
        for task in claim.tasks_at(scale):
            better, worse = claim.norms(task)
            own = not claim.overrides(scale, task)
            if own and (task, better) in cells and (task, worse) in cells:
                no_worse = claim.bound == "no_worse"
                found.append(Followed(task, better, worse, claim.quantity, no_worse))
    return list(dict.fromkeys(found))


class Plan:
    """Comparisons that get seeds until each is decided, has `most` of them, or cannot be decided.

    Every comparison starts with the planned seeds. Then, time and again, the seed is added that decides
    most a core-hour. The plan reads nothing but the seeds it has added so far, so that `progress`
    repeats it from the records, whenever it was interrupted, and whatever else is on record.
    """

    def __init__(
        self, comparisons: Sequence[Followed], *, seeds: Sequence[int], most: int, at_once: int
    ) -> None:
        self.comparisons, self.seeds, self.most, self.at_once = comparisons, seeds, most, at_once
        self._standings: dict[tuple[Followed, tuple[tuple[str, frozenset[int]], ...]], Standing] = {}

    def progress(self, records: Mapping[tuple[str, Quantity], Evidence]) -> Progress:
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

    def _standing(self, found: Followed, record: Evidence, added: Added) -> Standing:
        seeds = {norm: chosen for (task, norm), chosen in added.items() if task == found.task}
        key = found, tuple(seeds.items())
        if key not in self._standings:
            shared = seeds[found.better] & seeds[found.worse]
            self._standings[key] = self._read(found, record.of_seeds(seeds), len(shared))
        return self._standings[key]

    def _read(self, found: Followed, record: Evidence, seeds: int) -> Standing:
        margin = preregistration().margin(found.task, found.quantity)
        assert margin is not None, "checked with the file"
        paper = paper_gap(record, found.better, found.worse)
        read = pair(record, found.better, found.worse, margin=margin, paper=paper, goes_on=True)
        assert read is not None, "the task is there"
        if any(side.diverged or side.unlearned for side in read.sides):
            return Standing(found, read, "open", read.remark)
        answer = _answer(read, no_worse=found.no_worse)
        left = f"{seeds} seeds" if answer == "open" and seeds >= self.most else ""
        return Standing(found, read, answer, left)

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
        grown = (other for other in waiting if _grows(other.comparison, new, added))
        return sum(1 / self._left(other.pair) for other in grown) * 3600 / seconds

    def _left(self, read: Pair) -> int:
        return self.closes_in(read) or max(1, self.most - len(read.seeds))

    def closes_in(self, read: Pair) -> int | None:
        """Return with how many seeds more a comparison has the registered power.

        At the margin or at the paper's gap, whichever is nearer. None where the plan has too few seeds.
        """
        closing: list[int | None] = []
        if read.prospect is not None and read.comparison is not None:
            closing.append(read.prospect.to_equate)
            closing += [] if read.comparison.paper_excluded else [read.prospect.to_find]
        ahead = [n for n in closing if n is not None and len(read.seeds) < n <= self.most]
        return min(ahead) - len(read.seeds) if ahead else None


def _answer(found: Pair, *, no_worse: bool) -> str:
    """Return what a comparison says that goes on if it is open; before the planned seeds it says nothing."""
    if found.comparison is None or len(found.seeds) < preregistration().stopping.planned:
        return "open"
    read = found.comparison
    if read.answer == "open" and no_worse:
        level = preregistration().level
        return "not worse" if read.p_not_inferior < level else "worse" if read.p_inferior < level else "open"
    return read.answer


def _next_runs(found: Followed, added: Added) -> list[Run]:
    """Return the runs that the next seed of a comparison lacks: one of a norm, or of both."""
    norms = (found.better, found.worse)
    shared = added[found.task, norms[0]] & added[found.task, norms[1]]
    seed = next(seed for seed in range(1, len(shared) + 2) if seed not in shared)
    return [Run(found.task, norm, seed) for norm in norms if seed not in added[found.task, norm]]


def _grows(found: Followed, new: Sequence[Run], added: Added) -> bool:
    """Return whether runs give a comparison a seed that both of its norms have."""
    sides = []
    for norm in (found.better, found.worse):
        more = {run.seed for run in new if (run.task, run.norm) == (found.task, norm)}
        sides.append(added[found.task, norm] | more)
    before = added[found.task, found.better] & added[found.task, found.worse]
    return len(sides[0] & sides[1]) > len(before)


def _is_recorded(run: Run, records: Mapping[tuple[str, Quantity], Evidence]) -> bool:
    sides = (found.norms.get(run.norm) for (task, _), found in records.items() if task == run.task)
    return any(side is not None and run.seed in side.recorded for side in sides)
