"""Which seeds come next, and making them: until comparisons are decided or a budget is spent."""

import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from adanorm.config.compose import cached_experiment
from adanorm.config.titles import QUANTITIES, title
from adanorm.studies.rule import Compares
from adanorm.studies.study import Planned
from adanorm.verdicts.cell import Evidence, evidence
from adanorm.verdicts.pair import Pair, pair
from adanorm.verdicts.preregistration import preregistration
from adanorm.verdicts.sentences import listed

Records: TypeAlias = Mapping[tuple[str, Compares], Evidence]


class Followed(NamedTuple):
    """A comparison of two norms on a task; `no_worse`: a claim asks for non-inferiority."""

    task: str
    better: str
    worse: str
    quantity: Compares = "test"
    no_worse: bool = False
    plan: str | None = None  # that reads it; None: the first


class Run(NamedTuple):
    """A run that a comparison asks for."""

    task: str
    norm: str
    seed: int


def as_it_comes(run: Run, scale: str, runs: str | None, settings: Sequence[str] = ()) -> Planned:
    """Return a run with its norm's own settings; `settings` leave it what it is, such as a logger."""
    chosen = [f"task={run.task}", f"norm={run.norm}", f"scale={scale}"]
    first = cached_experiment([*chosen, *settings], runs=runs)
    arguments = [*chosen, f"seed={run.seed}", *settings, *([f"runs={runs}"] if runs else [])]
    return Planned(run.norm, first.model_copy(update={"seed": run.seed}), arguments)


class Standing(NamedTuple):
    """A comparison by what is on record."""

    comparison: Followed
    pair: Pair
    answer: str
    runs: tuple[Run, ...] = ()  # that it lacks at its next look
    # Until it probably closes, or until its plan ends where none of them is likely to close it.
    looks: int = 0
    left: str = ""  # why it gets no more runs

    @property
    def hours(self) -> float:
        """The core-hours until the comparison probably closes."""
        seconds = dict(zip(self.pair.norms, (side.seconds or 1.0 for side in self.pair.sides), strict=True))
        return self.looks * sum(seconds[run.norm] for run in self.runs) / 3600


def followed(cells: Collection[tuple[str, str]], scale: str) -> list[Followed]:
    """Return the comparisons of claims among cells (task, norm) that have the scale's own settings."""
    comparisons = []
    for claim in preregistration().claims:
        for task in claim.tasks_at(scale):
            better, worse = claim.norms(task)
            if {(task, better), (task, worse)} <= {*cells} and not claim.overrides(scale, task):
                no_worse, plan = claim.bound == "no_worse", governing_plan(task, scale)
                comparisons.append(Followed(task, better, worse, claim.quantity, no_worse, plan))
    return list(dict.fromkeys(comparisons))


def governing_plan(task: str, scale: str) -> str | None:
    """Return the name of the plan that decides a task's claims by the runs of a scale; None: the first."""
    name = preregistration().plan_of(task, "small")
    plan = preregistration().plans[name] if name else None
    return name if plan and plan.scale == scale and not plan.folds else None


def on_record(
    comparisons: Sequence[Followed], scales: Mapping[str, str], runs: str | None, norms: Sequence[str] = ()
) -> Records:
    """Return the evidence on comparisons by task and quantity, under their plans.

    `scales` are the tasks' own, and `norms` those that are not registered.
    """
    records = {}
    for task, quantity, plan in dict.fromkeys((c.task, c.quantity, c.plan) for c in comparisons):
        own = preregistration().quantity_read(quantity, plan)
        records[task, quantity] = evidence(task, scales[task], own, runs=runs, norms=norms, plan=plan)
    return records


def standing(comparison: Followed, record: Evidence, most: int) -> Standing:
    """Return where a comparison stands that may get looks after at most so many seeds."""
    norms = pair(record, comparison.better, comparison.worse, goes_on=True)
    answer = norms.answer_of_no_loss if comparison.no_worse else norms.answer
    if any(side.setback for side in norms.sides):
        return Standing(comparison, norms, answer, left=norms.remark)
    later = [look for look in norms.looks.after if len(norms.seeds) < look <= most]
    is_open = answer in ("open", "not run")
    if not later or not is_open:
        return Standing(comparison, norms, answer, left=f"{len(norms.seeds)} seeds" if is_open else "")
    recorded = [side.recorded for side in norms.sides]
    shared = record.variance.shared(comparison.worse, comparison.better)
    first = preregistration().plans[record.plan].first if record.plan else 1
    new = [seed for seed in range(first, first + most) if seed not in recorded[0] & recorded[1]]
    runs = tuple(
        Run(comparison.task, norm, seed)
        for seed in new[: max(0, later[0] - len(shared))]
        for norm, seeds in zip(norms.norms, recorded, strict=True)
        if seed not in seeds
    )
    closes = closing_look(norms)
    looks = later.index(closes) + 1 if closes in later else len(later)
    return Standing(comparison, norms, answer, runs, looks, "" if runs else "no seed is left")


def closing_look(norms: Pair) -> int | None:
    """Return the look at which margin or paper's gap close a comparison with the registered power."""
    if norms.prospect is None or norms.comparison is None:
        return None
    counts = [norms.prospect.to_equate]
    counts += [] if norms.comparison.papers_gap == "excluded" else [norms.prospect.to_find]
    ahead = (look for look in norms.looks.after if look in counts and look > len(norms.seeds))
    return min(ahead, default=None)


def next_runs(standings: Sequence[Standing], at_once: int) -> list[Run]:
    """Return the next runs: of what closes in the fewest core-hours, then of others up to `at_once`."""
    runs: dict[Run, None] = {}
    for one in sorted((one for one in standings if one.runs), key=lambda one: one.hours):
        if len(runs) < at_once:
            runs |= dict.fromkeys(one.runs)
    return list(runs)


def _say(line: str) -> None:
    print("\n".join(textwrap.wrap(line, 80, subsequent_indent="  ")), flush=True)


def run_until_decided(
    comparisons: Sequence[Followed],
    make: Callable[[Sequence[Run]], Sequence[Planned]],
    records: Callable[[Sequence[Followed]], Records],
    *,
    most: int,
    at_once: int,
    affordable: Callable[[Sequence[Run]], bool] = lambda _: True,
    say: Callable[[str], None] = _say,
) -> tuple[list[Planned], bool]:
    """Add seeds until every comparison is decided, has had its last look, or cannot be decided.

    Return the runs that failed, and whether there were looks left that were not affordable. `make` makes runs
    and returns those that failed. Comparisons on a task are left once a run of it failed or
    its next runs are not affordable. What comes next follows from the records alone, so that an interrupted
    start goes on from what is there.
    """
    failed: list[Planned] = []
    reported: dict[Followed, str] = {}
    is_spent = False
    while True:
        evidences = records(comparisons)
        standings = [standing(c, evidences[c.task, c.quantity], most) for c in comparisons]
        for one in standings:
            line = _ended(one)
            if line != reported.get(one.comparison, ""):
                say(line or f"open again: {_named(one)}")
                reported[one.comparison] = line
        runs = next_runs(standings, at_once)
        if not runs:
            return failed, is_spent
        left = {run.task for run in runs}
        if affordable(runs):
            say(_next(runs, standings))
            broken = make(runs)
            failed += broken
            left = {run.experiment.task.name for run in broken}
        else:
            is_spent = True
        comparisons = [c for c in comparisons if c.task not in left]


def _named(one: Standing) -> str:
    comparison = one.comparison
    quantity = "" if comparison.quantity == "test" else f", {QUANTITIES[comparison.quantity]}"
    norms = f"{title(comparison.better)} beside {title(comparison.worse)}"
    return f"{title(comparison.task)}, {norms}{quantity}"


def _ended(one: Standing) -> str:
    """Return what a comparison came to; nothing while seeds are added to it."""
    if one.runs:
        return ""
    comparison, detail = one.pair.comparison, ""
    if comparison is not None:
        gap = f"{comparison.gap:+.3g} after {comparison.seeds} seeds"
        detail = f" ({gap}, margin {comparison.margin:g}; {one.pair.why})"
    if one.left:
        return f"left {one.answer}: {_named(one)}: {one.left}{detail}"
    return f"decided: {_named(one)}: {one.answer}{detail}"


def _next(runs: Sequence[Run], standings: Sequence[Standing]) -> str:
    seeds: dict[tuple[str, str], list[str]] = {}
    for run in runs:
        seeds.setdefault((run.task, run.norm), []).append(str(run.seed))
    cells = [f"{title(task)} {title(norm)} seeds {listed(names)}" for (task, norm), names in seeds.items()]
    waiting = [one for one in standings if one.runs]
    first = min(waiting, key=lambda one: one.hours)
    return f"{len(waiting)} open; next {'; '.join(cells)}: {_named(first)} closes in the fewest core-hours"
