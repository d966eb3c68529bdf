"""Tests of the paper's claims: one norm does better than another on so many data sets."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Literal, TypeAlias

from adanorm.config.titles import title
from adanorm.stats.comparison import Answer, Comparison, Hypothesis
from adanorm.stats.conjunction import corrected, count_shown, partial_conjunction, sign_test
from adanorm.verdicts.deciding import (
    decided_before,
    deciding,
    folds_of,
    plans_to_decide,
    read,
)
from adanorm.verdicts.evidence import Evidence, evidence
from adanorm.verdicts.pair import Pair, by_own_noise, published_score
from adanorm.verdicts.plan import Plan, compare_by
from adanorm.verdicts.preregistration import Claim, preregistration, submitted_claims
from adanorm.verdicts.quantities import Quantity

# `small` is the newest plan of each data set, at the paper's size where a CPU can train it; `paper`
# is that size throughout.
SCALES = ("paper", "small")
BESIDE: tuple[Quantity, ...] = ("valid_best", "valid_level")  # shown beside a claim on test scores
# By a claim's bound, the hypotheses that are tested: the claim, its contrary, no such gain.
TESTED: dict[str, tuple[Hypothesis, Hypothesis, Hypothesis]] = {
    "better": ("better", "worse", "not superior"),
    "no_worse": ("not inferior", "inferior", "inferior"),
}
Verdict = Literal["supported", "contradicted", "no such gain", "open", "not run"]


@dataclass(frozen=True)
class TaskResult:
    """A claim on one task: its norms compared by its quantity and by validation scores."""

    claim: Claim
    task: str
    pair: Pair
    # With the pair's own noise of test examples; None by the first plan, which has no pooled one.
    by_own_noise: Comparison | None = None
    best_epoch: Pair | None = None  # by the best validation score
    tail: Pair | None = None  # by the mean over the last third of evaluations

    @property
    def holds(self) -> bool:
        """Whether the task is shown to be one of those that the claim counts."""
        return self.ps[0] < preregistration().level

    @property
    def ps(self) -> tuple[float, ...]:
        """The p of the tests for the claim here, its contrary and no gain that matters.

        Small: shown.
        """
        return tuple(self.pair.p_of(hypothesis) for hypothesis in TESTED[self.claim.bound])


@dataclass(frozen=True)
class ClaimResult:
    """A claim at a scale, with one result per task.

    `family` is `ps` corrected over the scale's claims.
    """

    claim: Claim
    scale: str
    tasks: tuple[TaskResult, ...]
    family: tuple[float, float, float] | None = None

    @cached_property
    def ps(self) -> tuple[float, float, float]:
        """The p of the claim, its contrary and no gain that matters, by partial conjunction.

        A claim on at least u of n tasks is contradicted if its contrary is true on n - u + 1.
        """
        needed = self.claim.needed(self.scale)
        refuting = len(self.tasks) - needed + 1
        holds, contrary, no_gain = zip(*(task.ps for task in self.tasks), strict=True)
        return (
            partial_conjunction(holds, needed),
            partial_conjunction(contrary, refuting),
            partial_conjunction(no_gain, refuting),
        )

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
        for verdict, p in zip(verdicts, self.family or self.ps, strict=True):
            if p < preregistration().level:
                return verdict
        return "open"

    @property
    def shown_on(self) -> int:
        """The claim is shown to hold on at least this number of tasks."""
        return count_shown([task.ps[0] for task in self.tasks], preregistration().level)


def claim_results(runs: str | None = None) -> list[ClaimResult]:
    """Return the result of every claim of the paper, each data set by the plan that decides it.

    Claims at the paper's size stand apart only if runs of other data sets than those that the
    newest plans read have that size.
    """
    claims = preregistration().claims
    results = []
    for scale in SCALES:
        at_scale = evaluated(claims, scale, runs=runs)
        if scale == "small" or any(map(_has_runs_of_its_own, at_scale)):
            results += at_scale
    return results


def submission_results(runs: str | None = None) -> list[ClaimResult]:
    """Return the results of the submission's softer claims, by the plans that decide."""
    return evaluated(submitted_claims(), "small", runs=runs)


def _has_runs_of_its_own(result: ClaimResult) -> bool:
    plans = [plans_to_decide(task.task, "small", result.claim.quantity) for task in result.run]
    return any(plan.scale != "paper" for *_, plan in plans)


def first_plan_results(runs: str | None = None) -> list[TaskResult]:
    """Return what the first plan reads of the claims on data sets that a later plan decides now."""
    results = []
    for claim in preregistration().claims:
        for task in claim.tasks:
            plans = plans_to_decide(task, "small", claim.quantity)
            norms = claim.norms(task)
            if plans[-1].scale != "paper":
                continue
            by_first = read(plans[-1], norms, runs).pair
            decided_by = deciding(plans, norms, runs).plan
            if by_first.answer != "not run" and decided_by.name != "first":
                results.append(TaskResult(claim, task, by_first))
    return results


def evaluated(claims: Sequence[Claim], scale: str, *, runs: str | None = None) -> list[ClaimResult]:
    """Return the results of claims at a scale, corrected for the number of claims with runs."""
    results = []
    for claim in claims:
        tasks = [_judged(claim, task, scale, runs) for task in claim.tasks_at(scale)]
        results.append(ClaimResult(claim, scale, tuple(tasks)))
    with_runs = [position for position, result in enumerate(results) if result.run]
    ps = [results[position].ps for position in with_runs]
    by_hypothesis = [corrected(family) for family in zip(*ps, strict=True)]
    by_claim = zip(*by_hypothesis, strict=True)
    for position, family in zip(with_runs, by_claim, strict=True):
        results[position] = replace(results[position], family=family)
    return results


def _judged(claim: Claim, task: str, scale: str, runs: str | None) -> TaskResult:
    norms = claim.norms(task)
    reading = deciding(plans_to_decide(task, scale, claim.quantity), norms, runs)
    beside = []
    for quantity in BESIDE if claim.quantity == "test" else ():
        plan = replace(reading.plan, quantity=quantity)
        beside.append(read(plan, norms, runs).pair)
    with_own_noise = None if reading.plan.name == "first" else by_own_noise(*reading)
    return TaskResult(
        claim,
        task,
        reading.pair,
        with_own_noise,
        *beside,
    )


def claim_evidence(claim: Claim, scale: str, runs: str | None = None) -> dict[str, Evidence]:
    """Return the evidence at a scale on each task on which both norms of a claim have runs."""
    by_task = {}
    for task in claim.tasks_at(scale):
        plans = plans_to_decide(task, scale, claim.quantity)
        records, claimed_pair = deciding(plans, claim.norms(task), runs)
        if claimed_pair.answer != "not run":
            by_task[task] = records
    return by_task


@dataclass(frozen=True)
class TaskAnswer:
    """The answer to a claim on a task, by the runs of one scale under one plan."""

    plan: Plan
    comparison: Comparison | None
    pairs: int  # number of seeds that both norms have under the plan
    family_p: float = 1.0  # corrected over the claim's tasks (Holm 1979); 1 without a comparison
    # What plans before this one decided, each by its own rule, the newest first.
    before: tuple["TaskAnswer", ...] = ()
    setback: str = ""  # norms with runs that diverged or did not learn: there is no comparison
    without_scores: Answer | Literal["not run"] = "not run"  # the answer without a comparison
    norms: tuple[str, str] = ("", "")  # better, worse
    records: tuple[Evidence, ...] = ()  # what is compared, one entry for each fold
    # With the pair's own noise of test examples; of folds, whose gaps have it, the comparison.
    by_own_noise: Comparison | None = None

    @property
    def task(self) -> str:
        """The data set."""
        return self.plan.task

    @property
    def answer(self) -> Answer | Literal["not run"]:
        """The answer for the norm that is claimed to be better, in one word."""
        return self.comparison.answer if self.comparison else self.without_scores

    @property
    def is_significant(self) -> bool:
        """Whether the corrected p is below the registered level."""
        return self.family_p < preregistration().level

    @property
    def seeds_compared(self) -> int:
        """The number of shared seeds, in each fold if there are several, that the answer reads."""
        if self.plan.folds:
            return self.plan.seeds_read(self.pairs) or 0
        return self.comparison.seeds if self.comparison else 0

    @property
    def next_look(self) -> int | None:
        """The number of seeds at the next look; None after the last, and in the first plan."""
        looks = () if self.plan.name == "first" else self.plan.looks.after
        return next((look for look in looks if look > self.pairs), None)

    @property
    def seeds(self) -> str:
        """How many shared seeds are compared, perhaps in each of several folds, as text."""
        folds = f" in each of {self.plan.folds} folds" if self.plan.folds else ""
        return f"{self.seeds_compared}{folds}"


Answers: TypeAlias = Sequence[TaskAnswer]  # one for each data set


def task_answers(claim: Claim, *, runs: str | None = None) -> list[TaskAnswer]:
    """Return the answer to a claim on each of its tasks, in order.

    Runs at scale mini decide nothing.
    """
    answers = [_answer(claim, task, runs) for task in claim.tasks]
    ps = [1.0 if answer.comparison is None else answer.comparison.p for answer in answers]
    pairs = zip(answers, corrected(ps), strict=True)
    return [replace(answer, family_p=p) for answer, p in pairs]


def _answer(claim: Claim, task: str, runs: str | None) -> TaskAnswer:
    norms = claim.norms(task)
    plans = plans_to_decide(task, "small", claim.quantity)
    without_scores: Answer | Literal["not run"] = "not run"
    before: list[TaskAnswer] = []
    if plans[-1].folds:
        plan = plans[-1]
        folds = [evidence(fold, runs=runs, norms=norms) for fold in folds_of(plan)]
        samples = [records.variance for records in folds]
        comparison = with_own_noise = compare_by(plan, samples, norms)
    else:
        reading = deciding(plans, norms, runs)
        plan = reading.plan
        folds = [reading.records]
        comparison = reading.pair.comparison
        with_own_noise = by_own_noise(*reading)
        without_scores = reading.pair.answer
        for older in decided_before(reading, plans, runs):
            before.append(TaskAnswer(older.plan, older.comparison, len(older.seeds)))
    setbacks: dict[str, None] = {}  # each once, in the order of norms and folds
    for norm, records in product(norms, folds):
        setback = records.norms[norm].setback
        if setback:
            setbacks[f"{title(norm)} {setback}"] = None
    return TaskAnswer(
        plan,
        comparison,
        pairs=min(len(records.variance.shared(*norms)) for records in folds),
        before=tuple(before),
        setback=", ".join(setbacks),
        by_own_noise=with_own_noise,
        without_scores=without_scores,
        norms=norms,
        records=tuple(folds),
    )


def claims_of_the_paper() -> Iterator[tuple[Claim, int, int, int, float]]:
    """Yield each claim on test scores with the paper's wins, losses, ties and the sign test's p."""
    for claim in preregistration().claims:
        if claim.quantity != "test":
            continue
        gaps = []
        for task in claim.tasks:
            better, worse = (published_score(task, norm) for norm in claim.norms(task))
            if max(better, worse) > -math.inf:
                gaps.append(better - worse)
        wins, losses, p = sign_test(gaps)
        yield claim, wins, losses, len(gaps) - wins - losses, p
