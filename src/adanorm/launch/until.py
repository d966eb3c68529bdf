"""Chooses and makes the next seeds, until comparisons are decided or a budget is spent."""

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
    """A comparison of two norms on a task. With `no_worse` it is of non-inferiority, as a claim asks."""

    task: str
    better: str
    worse: str
    quantity: Compares = "test"
    no_worse: bool = False
    plan: str | None = None  # the plan that decides it; None: the first plan


class Run(NamedTuple):
    """A run that a comparison asks for."""

    task: str
    norm: str
    seed: int


def as_it_comes(run: Run, scale: str, runs: str | None, settings: Sequence[str] = ()) -> Planned:
    """Return a run with its norm's own settings; `settings` do not change its identity, such as a logger."""
    choice = [f"task={run.task}", f"norm={run.norm}", f"scale={scale}"]
    first = cached_experiment([*choice, *settings], runs=runs)
    arguments = [*choice, f"seed={run.seed}", *settings, *([f"runs={runs}"] if runs else [])]
    return Planned(run.norm, first.model_copy(update={"seed": run.seed}), arguments)


class Standing(NamedTuple):
    """A comparison with its evidence on record, and the runs that it needs next."""

    comparison: Followed
    pair: Pair
    answer: str
    runs: tuple[Run, ...] = ()  # that its next look needs and that are missing
    # How many until it probably closes; if none is likely to close it, how many until its plan
    # ends.
    looks: int = 0
    left: str = ""  # why it gets no more runs

    @property
    def hours(self) -> float:
        """The core-hours until the comparison probably closes, or until its plan ends."""
        seconds = dict(
            zip(self.pair.norms, (side.seconds or 1.0 for side in self.pair.sides), strict=True)
        )
        return self.looks * sum(seconds[run.norm] for run in self.runs) / 3600


def followed(cells: Collection[tuple[str, str]], scale: str) -> list[Followed]:
    """Return the comparisons of claims between two of `cells` (task, norm), at the scale's own settings."""
    comparisons = []
    for claim in preregistration().claims:
        for task in claim.tasks_at(scale):
            better, worse = claim.norms(task)
            if {(task, better), (task, worse)} <= {*cells} and not claim.overrides(scale, task):
                no_worse, plan = claim.bound == "no_worse", governing_plan(task, scale)
                comparisons.append(Followed(task, better, worse, claim.quantity, no_worse, plan))
    return list(dict.fromkeys(comparisons))


def governing_plan(task: str, scale: str) -> str | None:
    """Return the name of the plan that decides a task's claims with a scale's runs; None: the first plan."""
    name = preregistration().plan_of(task, "small")
    plan = preregistration().plans[name] if name else None
    return name if plan and plan.scale == scale and not plan.folds else None


def on_record(
    comparisons: Sequence[Followed],
    scales: Mapping[str, str],
    runs: str | None,
    norms: Sequence[str] = (),
) -> Records:
    """Return the evidence for comparisons by task and quantity, according to their plans.

    `scales` has the scale of each task; `norms` are added to the registered ones.
    """
    records = {}
    for task, quantity, plan in dict.fromkeys((c.task, c.quantity, c.plan) for c in comparisons):
        own = preregistration().quantity_read(quantity, plan)
        records[task, quantity] = evidence(
            task, scales[task], own, runs=runs, norms=norms, plan=plan
        )
    return records


def standing(comparison: Followed, record: Evidence, most: int) -> Standing:
    """Return the standing of a comparison whose looks come after at most `most` seeds."""
    norms = pair(record, comparison.better, comparison.worse, goes_on=True)
    answer = norms.answer_of_no_loss if comparison.no_worse else norms.answer
    if any(side.setback for side in norms.sides):
        return Standing(comparison, norms, answer, left=norms.remark)
    if answer not in ("open", "not run"):
        return Standing(comparison, norms, answer)
    if not (later := [look for look in norms.looks.after if len(norms.seeds) < look <= most]):
        return Standing(comparison, norms, answer, left=f"{len(norms.seeds)} seeds")
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
    """Return the next look at which a comparison closes, by margin or paper's gap, with the plan's power."""
    if norms.prospect is None or norms.comparison is None:
        return None
    counts = [norms.prospect.to_equate]
    counts += [] if norms.comparison.papers_gap == "excluded" else [norms.prospect.to_find]
    ahead = (look for look in norms.looks.after if look in counts and look > len(norms.seeds))
    return min(ahead, default=None)


def next_runs(standings: Sequence[Standing], at_once: int) -> list[Run]:
    """Return the next runs until there are `at_once`, first for what closes in the fewest core-hours."""
    runs: dict[Run, None] = {}
    for state in sorted(
        (state for state in standings if state.runs), key=lambda state: state.hours
    ):
        if len(runs) < at_once:
            runs |= dict.fromkeys(state.runs)
    return list(runs)


def _say(line: str) -> None:
    print(textwrap.fill(line, 80, subsequent_indent="  "), flush=True)


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

    Return the runs that failed, and whether the next runs of any comparison were not affordable.
    `make` makes runs and returns those that failed. All comparisons on a task end once a run on it
    fails or its next runs are not affordable. The next runs follow from the records alone, so that
    an interrupted call can go on.
    """
    failures: list[Planned] = []
    lines: dict[Followed, str] = {}
    is_spent = False
    while True:
        evidences = records(comparisons)
        standings = [standing(c, evidences[c.task, c.quantity], most) for c in comparisons]
        for state in standings:
            line = _outcome(state)
            if line != lines.get(state.comparison, ""):
                say(line or f"open again: {_name(state)}")
                lines[state.comparison] = line
        if not (runs := next_runs(standings, at_once)):
            return failures, is_spent
        if affordable(runs):
            say(_announcement(runs, standings))
            new_failures = make(runs)
            failures += new_failures
            closed_tasks = {run.experiment.task.name for run in new_failures}
        else:
            is_spent, closed_tasks = True, {run.task for run in runs}
        comparisons = [c for c in comparisons if c.task not in closed_tasks]


def _name(state: Standing) -> str:
    comparison = state.comparison
    quantity = "" if comparison.quantity == "test" else f", {QUANTITIES[comparison.quantity]}"
    norms = f"{title(comparison.better)} beside {title(comparison.worse)}"
    return f"{title(comparison.task)}, {norms}{quantity}"


def _outcome(state: Standing) -> str:
    """Return the outcome of a comparison as a line; '' while it gets more seeds."""
    if state.runs:
        return ""
    comparison, detail = state.pair.comparison, ""
    if comparison is not None:
        gap = f"{comparison.gap:+.3g} after {comparison.seeds} seeds"
        detail = f" ({gap}, margin {comparison.margin:g}; {state.pair.why})"
    if state.left:
        return f"left {state.answer}: {_name(state)}: {state.left}{detail}"
    return f"decided: {_name(state)}: {state.answer}{detail}"


def _announcement(runs: Sequence[Run], standings: Sequence[Standing]) -> str:
    seeds: dict[tuple[str, str], list[str]] = {}
    for run in runs:
        seeds.setdefault((run.task, run.norm), []).append(str(run.seed))
    cells = [
        f"{title(task)} {title(norm)} seeds {listed(names)}"
        for (task, norm), names in seeds.items()
    ]
    waiting = [state for state in standings if state.runs]
    first = min(waiting, key=lambda state: state.hours)
    return f"{len(waiting)} open; next {'; '.join(cells)}: {_name(first)} closes in the fewest core-hours"
