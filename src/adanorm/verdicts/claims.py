"""Tests of the paper's claims: one norm does better than another on so many data sets."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Literal

from adanorm.config.titles import title
from adanorm.stats.comparison import Comparison, Hypothesis, compare_gaps
from adanorm.stats.conjunction import corrected, count_shown, partial_conjunction, sign_test
from adanorm.stats.sequential import last_look
from adanorm.verdicts.cell import Evidence, Quantity, evidence
from adanorm.verdicts.pair import Pair, pair, published_score
from adanorm.verdicts.preregistration import Claim, preregistration

SCALES = ("paper", "small")
BESIDE: tuple[Quantity, ...] = (
    "valid_best",
    "valid_level",
)  # validation scores shown beside a claim
TESTED: dict[
    str, tuple[Hypothesis, Hypothesis, Hypothesis]
] = {  # by bound: claim, contrary, no gain
    "better": ("better", "worse", "not superior"),
    "no_worse": ("not inferior", "inferior", "inferior"),
}
Verdict = Literal["supported", "contradicted", "no such gain", "open", "not run"]


@dataclass(frozen=True)
class TaskResult:
    """A claim on one task: its two norms compared by its quantity and, beside it, by validation scores."""

    claim: Claim
    task: str
    pair: Pair
    best_epoch: Pair | None = None  # by the best validation score
    level: Pair | None = None  # by the mean over the last third of evaluations

    @property
    def holds(self) -> bool:
        """Whether the task is shown to be one of those that the claim counts."""
        return self.ps[0] < preregistration().level

    @property
    def ps(self) -> tuple[float, ...]:
        """The p of the tests for the claim here, its contrary and no gain that matters. Small: shown."""
        return tuple(self.pair.p_of(one) for one in TESTED[self.claim.bound])


@dataclass(frozen=True)
class ClaimResult:
    """A claim at a scale, with one result per task; `family` is `ps` corrected over the scale's claims."""

    claim: Claim
    scale: str
    tasks: tuple[TaskResult, ...]
    family: tuple[float, float, float] | None = None

    @cached_property
    def ps(self) -> tuple[float, float, float]:
        """The p of the tests for the claim, its contrary and no gain that matters, by partial conjunction.

        A claim on at least u of n tasks is contradicted if its contrary is true on n - u + 1.
        """
        needed = self.claim.needed(self.scale)
        contrary = (
            len(self.tasks) - needed + 1
        )  # tasks on which the contrary refutes a claim on `needed`
        holds, against, no_gain = zip(*(task.ps for task in self.tasks), strict=True)
        ps = partial_conjunction(holds, needed), partial_conjunction(against, contrary)
        return *ps, partial_conjunction(no_gain, contrary)

    @property
    def run(self) -> list[TaskResult]:
        """The results of the tasks on which both norms have runs."""
        return [task for task in self.tasks if task.pair.answer != "not run"]

    @property
    def verdict(self) -> Verdict:
        """The verdict on the claim, at the registered level over all claims of the scale."""
        if not self.run:
            return "not run"
        verdicts: tuple[Verdict, ...] = ("supported", "contradicted", "no such gain")
        ps, level = self.family or self.ps, preregistration().level
        return next((verdict for verdict, p in zip(verdicts, ps, strict=True) if p < level), "open")

    @property
    def shown_on(self) -> int:
        """The claim is shown to hold on at least this number of tasks."""
        return count_shown([task.ps[0] for task in self.tasks], preregistration().level)


def claim_results(runs: str | None = None) -> list[ClaimResult]:
    """Return the result of every claim of the paper at each of SCALES."""
    return [
        result
        for scale in SCALES
        for result in evaluated(preregistration().claims, scale, runs=runs)
    ]


def evaluated(claims: Sequence[Claim], scale: str, *, runs: str | None = None) -> list[ClaimResult]:
    """Return the results of claims at a scale, corrected for the number of claims with runs."""
    results = [
        ClaimResult(
            claim, scale, tuple(_judged(claim, task, scale, runs) for task in claim.tasks_at(scale))
        )
        for claim in claims
    ]
    by_test = zip(*(result.ps for result in results if result.run), strict=True)
    families = zip(*map(corrected, by_test), strict=True)
    return [replace(result, family=next(families)) if result.run else result for result in results]


def _judged(claim: Claim, task: str, scale: str, runs: str | None) -> TaskResult:
    records, claimed_pair = _decided(claim, task, scale, runs)
    quantities = BESIDE if claim.quantity == "test" else ()
    beside = (_read(claim, task, scale, runs, records.plan, quantity)[1] for quantity in quantities)
    return TaskResult(claim, task, claimed_pair, *beside)


def claim_evidence(claim: Claim, scale: str, runs: str | None = None) -> dict[str, Evidence]:
    """Return the evidence at a scale on each task of a claim on which both of its norms have runs."""
    by_task = {task: _decided(claim, task, scale, runs) for task in claim.tasks_at(scale)}
    return {
        task: records for task, (records, claimed) in by_task.items() if claimed.answer != "not run"
    }


def _decided(claim: Claim, task: str, scale: str, runs: str | None) -> tuple[Evidence, Pair]:
    """Return the records that decide a claim on a task, and the pair of its norms.

    At the paper's scale, the first plan's records decide until the task's own plan has had its
    first look.
    """
    plan = preregistration().plan_of(task, scale)
    records, claimed_pair = _read(claim, task, scale, runs, plan)
    has_looked = claimed_pair.comparison is not None or claimed_pair.divergence_p is not None
    if plan is None or has_looked or records.scale != "paper":
        return records, claimed_pair
    return _read(claim, task, "paper", runs, None)


def _read(
    claim: Claim,
    task: str,
    scale: str,
    runs: str | None,
    plan: str | None,
    quantity: Quantity | None = None,
) -> tuple[Evidence, Pair]:
    """Return the records that a plan reads for a claim on a task, and the pair of its norms by them."""
    registered, norms, overrides = (
        preregistration(),
        claim.norms(task),
        claim.overrides(scale, task),
    )
    scale = registered.scale_of(task, scale)
    quantity = quantity or registered.quantity_read(claim.quantity, plan)
    records = evidence(
        task, scale, quantity, runs=runs, norms=norms, overrides=overrides, plan=plan
    )
    return records, pair(records, *norms)


@dataclass(frozen=True)
class TaskAnswer:
    """The answer to a claim on a task, by the runs of one scale under one plan."""

    task: str
    scale: str
    plan: str
    comparison: Comparison | None
    pairs: int  # number of seeds that both norms have under the plan
    next_look: (
        int | None
    )  # number of seeds at the next look; None after the last, and in the first plan
    family_p: float = 1.0  # corrected over the claim's tasks (Holm 1979); 1 without a comparison
    before: "TaskAnswer | None" = (
        None  # what the first plan decided, if a later one has looked since
    )
    setback: str = ""  # norms with runs that diverged or did not learn; then there is no comparison

    @property
    def seeds(self) -> str:
        """How many shared seeds are compared, perhaps in each of several folds, as text."""
        plan = preregistration().plans.get(self.plan)
        if plan and plan.folds:
            return f"{last_look(plan.looks, self.pairs)} in each of {plan.folds} folds"
        return str(self.comparison.seeds if self.comparison else 0)


def task_answers(claim: Claim, *, runs: str | None = None) -> list[TaskAnswer]:
    """Return the answer to a claim on each of its tasks, in order; runs at scale mini decide nothing."""
    answers = [_answer(claim, task, runs) for task in claim.tasks]
    ps = corrected([1.0 if one.comparison is None else one.comparison.p for one in answers])
    return [replace(one, family_p=p) for one, p in zip(answers, ps, strict=True)]


def _answer(claim: Claim, task: str, runs: str | None) -> TaskAnswer:
    registered = preregistration()
    name = registered.plan_of(task, "small")
    if name and registered.plans[name].folds:
        comparison, pairs, sources = _over_folds(name, claim, task, runs)
    else:
        records, claimed_pair = _decided(claim, task, "small", runs)
        sources, name, comparison = [records], records.plan, claimed_pair.comparison
        pairs = len(records.variance.shared(*claim.norms(task)))
    sides = [(norm, one.norms[norm]) for norm in claim.norms(task) for one in sources]
    setback = ", ".join(
        {f"{title(norm)} {cell.setback}": None for norm, cell in sides if cell.setback}
    )
    looks = registered.plans[name].looks if name else ()
    next_look = next((look for look in looks if look > pairs), None)
    scale, before = registered.scale_of(task, "small"), None
    if (
        name
        and scale == "paper"
        and (first := _read(claim, task, scale, runs, None)[1]).answer != "open"
    ):
        before = TaskAnswer(task, scale, "first", first.comparison, len(first.seeds), None)
    return TaskAnswer(
        task, scale, name or "first", comparison, pairs, next_look, 1.0, before, setback
    )


def _over_folds(
    name: str, claim: Claim, task: str, runs: str | None
) -> tuple[Comparison | None, int, list[Evidence]]:
    """Return the folds' mean gaps compared at the last look, the seeds that every fold has, and records."""
    registered, plan, (better, worse) = (
        preregistration(),
        preregistration().plans[name],
        claim.norms(task),
    )
    settings, quantity = (
        [[f"data.fold={fold}"] for fold in range(1, (plan.folds or 0) + 1)],
        plan.quantity,
    )
    folds = [
        evidence(task, plan.scale, quantity, runs=runs, overrides=own, plan=name)
        for own in settings
    ]
    by_fold = [records.variance.gaps(worse, better) for records in folds]  # in the order of seeds
    pairs, looks = min(map(len, by_fold)), registered.looks_of(name)
    seeds = last_look(plan.looks, pairs)
    if seeds is None:
        return None, pairs, folds
    margin, overlap = registered.margin(task, claim.quantity, name), plan.overlap or 0.0
    assert margin is not None, "checked with the file"
    means, level = [fmean(gaps[:seeds]) for gaps in by_fold], looks.level
    return (
        compare_gaps(means, margin, level=level, levels=looks.levels(seeds), overlap=overlap),
        pairs,
        folds,
    )


def claims_of_the_paper() -> Iterator[tuple[Claim, int, int, int, float]]:
    """Yield each claim on test scores, with wins, losses, ties and sign test's p of the paper's numbers."""
    for claim in preregistration().claims:
        if claim.quantity == "test":
            scores = [
                [published_score(task, norm) for norm in claim.norms(task)] for task in claim.tasks
            ]
            gaps = [better - worse for better, worse in scores if max(better, worse) > -math.inf]
            wins, losses, p = sign_test(gaps)
            yield claim, wins, losses, len(gaps) - wins - losses, p
