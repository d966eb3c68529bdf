"""What the records answer to a claim about two norms, one answer per task: under the plan that decides it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import fmean

from adanorm.records.comparisons import read_comparison
from adanorm.verdicts.claims import claimed_pair
from adanorm.verdicts.comparison import Comparison, compare_gaps
from adanorm.verdicts.conjunction import corrected
from adanorm.verdicts.evidence import Evidence, evidence
from adanorm.verdicts.pair import published_gap
from adanorm.verdicts.preregistration import Claim, Plan, preregistration
from adanorm.verdicts.sequential import Looks

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
    later = next((name for name, plan in preregistration().plans.items() if task in plan.tasks), None)
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
    plan, registered = preregistration().plans[name], preregistration()
    better, worse = claim.norms(task)
    by_fold = [_gaps(plan, task, better, worse, fold, runs) for fold in _folds(plan)]
    pairs = min(map(len, by_fold))
    done = [look for look in plan.looks if look <= pairs]
    following = next((look for look in plan.looks if look > pairs), None)
    if not done:
        return TaskAnswer(task, plan.scale, name, None, pairs, following)
    read = [gaps[: done[-1]] for gaps in by_fold]
    margin = plan.margins.get(task) or registered.margin(task, "test")
    assert margin is not None, "every task of a plan has one"
    comparison = compare_gaps(
        [fmean(gaps) for gaps in read] if plan.folds else read[0],
        margin,
        level=registered.level,
        levels=_looks(plan).levels(done[-1]),
        overlap=plan.overlap or 0.0,
        paper=published_gap(task, better, worse) if plan.scale == "paper" else None,
        example_error=0.0 if plan.folds else example_error(evidence(task, plan.scale, runs=runs)),
    )
    return TaskAnswer(task, plan.scale, name, comparison, pairs, following)


def _folds(plan: Plan) -> list[tuple[str, ...]]:
    """Return the settings of each fold of a plan; one of none where it has no folds."""
    return [(f"data.fold={fold}",) for fold in range(1, plan.folds + 1)] if plan.folds else [()]


def _gaps(
    plan: Plan, task: str, better: str, worse: str, fold: tuple[str, ...], runs: str | None
) -> list[float]:
    """Return the gaps of the seeds of a plan that two norms share, in the order of the seeds."""
    settings = [f"seed={plan.first}", *fold]
    records = evidence(task, plan.scale, plan.quantity, runs=runs, overrides=settings)
    seeds = [seed for seed in records.variance.shared(worse, better) if plan.first <= seed <= plan.last]
    sides = records.norms[better].by_seed, records.norms[worse].by_seed
    return [sides[0][seed] - sides[1][seed] for seed in seeds]


def _looks(plan: Plan) -> Looks:
    registered = preregistration()
    return Looks(plan.looks, plan.spending, registered.level, registered.power)


def example_error(records: Evidence) -> float:
    """Return the standard error that the choice of test examples adds to a gap, pooled over pairs of norms.

    The root of the mean square over the pairs that were compared by example; 0 where none was.
    """
    firsts = [cell.runs[0] for cell in records.norms.values() if cell.runs]
    compared = [read_comparison(*pair) for pair in combinations(firsts, 2)]
    errors = [one.example_error for one in compared if one is not None]
    return math.sqrt(fmean(error**2 for error in errors)) if errors else 0.0
