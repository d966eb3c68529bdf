"""What the records answer to a claim about two norms, one answer per task: under the plan that decides it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import fmean

from adanorm.verdicts.claims import claim_margin, claimed_pair
from adanorm.verdicts.comparison import Comparison, compare_gaps
from adanorm.verdicts.conjunction import corrected
from adanorm.verdicts.evidence import evidence
from adanorm.verdicts.preregistration import Claim, preregistration

FIRST_PLAN = "first"


@dataclass(frozen=True)
class TaskAnswer:
    """What is shown of a claim on a task, by the runs of one scale under one plan.

    `pairs` counts the seeds that both norms have under the plan; `next_look` is the number of them at
    which it is read next, None after its last look. `family_p` is p corrected over the tasks of the claim
    (Holm 1979), among which a task without an answer counts with 1.
    """

    task: str
    scale: str
    plan: str
    comparison: Comparison | None
    pairs: int
    next_look: int | None
    family_p: float = 1.0


def task_answers(claim: Claim, *, runs: str | None = None) -> list[TaskAnswer]:
    """Return the answers to a claim on each of its tasks, in their order.

    A later plan decides a task from its first look on; until then the first plan's answer at the paper's size
    stands. No run at scale mini answers anything.
    """
    answers = [_answer(claim, task, runs) for task in claim.tasks]
    ps = corrected([1.0 if one.comparison is None else one.comparison.p for one in answers])
    return [replace(one, family_p=p) for one, p in zip(answers, ps, strict=True)]


def _answer(claim: Claim, task: str, runs: str | None) -> TaskAnswer:
    later = preregistration().plan_of(task, "small")
    if later is None:
        return _by_first_plan(claim, task, runs)
    answer = _by_plan(claim, task, later, runs)
    if answer.comparison is not None or answer.scale != "paper":
        return answer
    return _by_first_plan(claim, task, runs)


def _by_first_plan(claim: Claim, task: str, runs: str | None) -> TaskAnswer:
    both = claimed_pair(claim, evidence(task, "paper", runs=runs))
    pairs = 0 if both is None else len(both.seeds)
    comparison = None if both is None else both.comparison
    return TaskAnswer(task, "paper", FIRST_PLAN, comparison, pairs, None)


def _by_plan(claim: Claim, task: str, name: str, runs: str | None) -> TaskAnswer:
    plan = preregistration().plans[name]
    if plan.folds:
        comparison, pairs = _over_folds(name, claim, task, runs)
    else:
        records = evidence(task, plan.scale, plan.quantity, runs=runs, plan=name)
        both = claimed_pair(claim, records)
        comparison = None if both is None else both.comparison
        pairs = len(records.variance.shared(*claim.norms(task)))
    following = next((look for look in plan.looks if look > pairs), None)
    return TaskAnswer(task, plan.scale, name, comparison, pairs, following)


def _over_folds(name: str, claim: Claim, task: str, runs: str | None) -> tuple[Comparison | None, int]:
    """Return the comparison of the folds' mean gaps at the last look, and how many seeds all folds have."""
    plan, (better, worse) = preregistration().plans[name], claim.norms(task)
    by_fold: list[list[float]] = []  # gaps, worse to better, in the order of seeds
    for fold in range(1, (plan.folds or 0) + 1):
        settings = (f"data.fold={fold}",)
        records = evidence(task, plan.scale, plan.quantity, runs=runs, overrides=settings, plan=name)
        by_fold.append(records.variance.gaps(worse, better))
    pairs, looks = min(map(len, by_fold)), preregistration().looks_of(plan)
    done = [look for look in plan.looks if look <= pairs]
    if not done:
        return None, pairs
    comparison = compare_gaps(
        [fmean(gaps[: done[-1]]) for gaps in by_fold],
        claim_margin(claim, task, plan),
        level=looks.level,
        levels=looks.levels(done[-1]),
        overlap=plan.overlap or 0.0,
    )
    return comparison, pairs
