"""The paper's claims, tested as what they are: on so many data sets one norm does better than another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Literal

from adanorm.config.titles import task_metric
from adanorm.records.published import published
from adanorm.verdicts.cell import Evidence, Quantity, evidence
from adanorm.verdicts.comparison import Hypothesis
from adanorm.verdicts.conjunction import corrected, count_shown, partial_conjunction, sign_test
from adanorm.verdicts.pair import Pair, pair, paper_gap
from adanorm.verdicts.preregistration import Claim, preregistration

SCALES = ("paper", "small")
SEEN: tuple[Quantity, ...] = ("valid_best", "valid_level")  # validation scores that stand beside a claim
TESTED: dict[str, tuple[Hypothesis, Hypothesis, Hypothesis]] = {  # by bound: holds, contrary, no gain
    "better": ("better", "worse", "not superior"),
    "no_worse": ("not inferior", "inferior", "inferior"),
}
Verdict = Literal["supported", "contradicted", "no difference", "open", "not run"]


@dataclass(frozen=True)
class TaskResult:
    """A claim on one task: the two norms, and their validation scores, the best epoch's and the level."""

    claim: Claim
    task: str
    pair: Pair | None
    best_epoch: Pair | None = None
    level: Pair | None = None

    @property
    def answer(self) -> str:
        """What the records say of the norm that is claimed to be better."""
        return "not run" if self.pair is None else self.pair.answer

    @property
    def holds(self) -> bool:
        """Whether the task is shown to be one of those that the claim counts."""
        return self.ps[0] < preregistration().level

    @property
    def ps(self) -> tuple[float, ...]:
        """The p against the claim's holding here, against its contrary, and against no gain that matters."""
        return tuple(1.0 if self.pair is None else self.pair.p_of(one) for one in TESTED[self.claim.bound])


@dataclass(frozen=True)
class ClaimResult:
    """A claim at a scale with the results of its tasks.

    `family` are p-values of the claim corrected over all claims of the scale: of its holding, of its
    contrary, of no difference that matters.
    """

    claim: Claim
    scale: str
    tasks: tuple[TaskResult, ...]
    family: tuple[float, float, float] | None = None

    @cached_property
    def ps(self) -> tuple[float, float, float]:
        """The p of the claim, of its contrary, and of no gain that matters, by partial conjunction.

        A claim on at least u of n tasks is contradicted where its contrary is true on n - u + 1.
        """
        needed = self.claim.needed(self.scale)
        contrary = len(self.tasks) - needed + 1
        holds, against, no_gain = zip(*(task.ps for task in self.tasks), strict=True)
        return (
            partial_conjunction(holds, needed),
            partial_conjunction(against, contrary),
            partial_conjunction(no_gain, contrary),
        )

    @property
    def run(self) -> list[TaskResult]:
        """The tasks on which both norms have runs."""
        return [task for task in self.tasks if task.answer != "not run"]

    @property
    def verdict(self) -> Verdict:
        """What is shown of the claim, at the registered level over all claims of the scale."""
        level = preregistration().level
        holds, contrary, no_gain = self.family or self.ps
        if not self.run:
            return "not run"
        if holds < level:
            return "supported"
        if contrary < level:
            return "contradicted"
        return "no difference" if no_gain < level else "open"

    @property
    def shown_on(self) -> int:
        """On how many tasks at least the claim is shown to hold."""
        return count_shown([task.ps[0] for task in self.tasks], preregistration().level)


def claim_results(runs: str | None = None) -> list[ClaimResult]:
    """Return what the records say of every claim of the paper, at each of SCALES."""
    return [result for scale in SCALES for result in evaluated(preregistration().claims, scale, runs=runs)]


def evaluated(claims: Sequence[Claim], scale: str, *, runs: str | None = None) -> list[ClaimResult]:
    """Return what the records of a scale say of claims, each corrected for their number."""
    evidence_of = cache(partial(evidence, runs=runs))  # claims share tasks
    results = [
        ClaimResult(
            claim, scale, tuple(_task_result(claim, t, scale, evidence_of) for t in claim.tasks_at(scale))
        )
        for claim in claims
    ]
    begun = [result for result in results if result.run]
    holds, contrary, no_gain = (corrected([result.ps[column] for result in begun]) for column in range(3))
    families = iter(zip(holds, contrary, no_gain, strict=True))
    return [replace(result, family=next(families)) if result.run else result for result in results]


def _task_result(claim: Claim, task: str, scale: str, evidence_of: Callable[..., Evidence]) -> TaskResult:
    records = deciding_evidence(claim, task, scale, evidence_of)
    result = TaskResult(claim, task, claimed_pair(claim, records))
    if claim.quantity != "test":
        return result
    margin = claim_margin(claim, task, records.plan)
    seen = [_evidence(claim, task, scale, evidence_of, records.plan, quantity) for quantity in SEEN]
    best_epoch, level = (pair(records, *claim.norms(task), margin=margin) for records in seen)
    return replace(result, best_epoch=best_epoch, level=level)


def claim_evidence(claim: Claim, scale: str, runs: str | None = None) -> dict[str, Evidence]:
    """Return what the records of a scale say of each task of a claim on which both its norms have runs."""
    by_task = {}
    for task in claim.tasks_at(scale):
        records = deciding_evidence(claim, task, scale, partial(evidence, runs=runs))
        both = claimed_pair(claim, records)
        if both is not None and both.answer != "not run":
            by_task[task] = records
    return by_task


def claimed_pair(claim: Claim, records: Evidence) -> Pair | None:
    """Return the two norms of a claim on a task, by what is on record of it; None where that is nothing."""
    better, worse = claim.norms(records.task)
    is_own = not claim.overrides(records.scale, records.task)  # the paper's gap is one of its own settings
    paper = paper_gap(records, better, worse) if is_own else None
    return pair(records, better, worse, margin=claim_margin(claim, records.task, records.plan), paper=paper)


def deciding_evidence(claim: Claim, task: str, scale: str, evidence_of: Callable[..., Evidence]) -> Evidence:
    """Return the records that decide a claim on a task: those of the plan that reads it at the scale.

    At the paper's size those of the first plan until the later one's first look.
    """
    plan = preregistration().plan_of(task, scale)
    records = _evidence(claim, task, scale, evidence_of, plan)
    both = claimed_pair(claim, records)
    has_looked = both is not None and (both.comparison is not None or both.divergence_p is not None)
    if plan is None or has_looked or records.scale != "paper":
        return records
    return _evidence(claim, task, scale, evidence_of, None)


def _evidence(
    claim: Claim,
    task: str,
    scale: str,
    evidence_of: Callable[..., Evidence],
    plan: str | None,
    quantity: Quantity | None = None,
) -> Evidence:
    registered = preregistration()
    read_out: Quantity = claim.quantity
    if plan and claim.quantity == "test":
        read_out = registered.plans[plan].quantity
    return evidence_of(
        task,
        scale=registered.scale_of(task, scale),
        quantity=quantity or read_out,
        norms=tuple(norm for norm in claim.norms(task) if norm not in registered.norms),
        overrides=claim.overrides(scale, task),
        plan=plan,
    )


def claim_margin(claim: Claim, task: str, plan: str | None) -> float:
    """Return the smallest difference that matters to a claim on a task, by the plan that reads it."""
    own = preregistration().plans[plan].margins.get(task) if plan and claim.quantity == "test" else None
    margin = own or preregistration().margin(task, claim.quantity)
    assert margin is not None, "checked with the file"
    return margin


@dataclass(frozen=True)
class PaperClaim:
    """A claim on the paper's own table: wins, losses and ties over its tasks, and the sign test's p."""

    claim: Claim
    wins: int
    losses: int
    ties: int
    p: float


def claims_of_the_paper() -> list[PaperClaim]:
    """Return the claims on test scores tested on the numbers that the paper prints, one seed a number."""
    tested = []
    for claim in preregistration().claims:
        if claim.quantity != "test":
            continue
        gaps = []
        for task in claim.tasks:
            numbers = [published(task, norm) for norm in claim.norms(task)]
            values = [number.value for number in numbers if number is not None]
            if values == [None, None]:
                continue
            sign = 1 if task_metric(task).higher_is_better else -1
            first, second = (-1e9 * sign if value is None else value for value in values)  # Diverge is worst
            gaps.append(sign * (first - second))
        wins, losses, p = sign_test(gaps)
        tested.append(PaperClaim(claim, wins, losses, len(gaps) - wins - losses, p))
    return tested
