"""What the records answer to a claim about two norms, one answer per task: under the plan that decides it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

from adanorm.verdicts.cell import evidence
from adanorm.verdicts.claims import claim_margin, claimed_pair, deciding_evidence
from adanorm.verdicts.comparison import Comparison, compare_gaps
from adanorm.verdicts.conjunction import corrected
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
    name = preregistration().plan_of(task, "small")
    scale: str = preregistration().scale_of(task, "small")
    if name and preregistration().plans[name].folds:
        comparison, pairs = _over_folds(name, claim, task, runs)
    else:
        records = deciding_evidence(claim, task, "small", partial(evidence, runs=runs))
        both = claimed_pair(claim, records)
        name, comparison = records.plan, None if both is None else both.comparison
        pairs = len(records.variance.shared(*claim.norms(task)))
    looks = preregistration().plans[name].looks if name else ()
    following = next((look for look in looks if look > pairs), None)
    return TaskAnswer(task, scale, name or FIRST_PLAN, comparison, pairs, following)


def _over_folds(name: str, claim: Claim, task: str, runs: str | None) -> tuple[Comparison | None, int]:
    """Return the comparison of the folds' mean gaps at the last look, and how many seeds all folds have."""
    plan, (better, worse) = preregistration().plans[name], claim.norms(task)
    by_fold: list[list[float]] = []  # gaps, worse to better, in the order of seeds
    for fold in range(1, (plan.folds or 0) + 1):
        settings = (f"data.fold={fold}",)
        records = evidence(task, plan.scale, plan.quantity, runs=runs, overrides=settings, plan=name)
        by_fold.append(records.variance.gaps(worse, better))
    pairs, looks = min(map(len, by_fold)), preregistration().looks_of(name)
    done = [look for look in plan.looks if look <= pairs]
    if not done:
        return None, pairs
    comparison = compare_gaps(
        [fmean(gaps[: done[-1]]) for gaps in by_fold],
        claim_margin(claim, task, name),
        level=looks.level,
        levels=looks.levels(done[-1]),
        overlap=plan.overlap or 0.0,
    )
    return comparison, pairs
