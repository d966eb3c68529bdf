"""Which plan decides: a data set's plans, newest first, and what each says of two norms."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from adanorm.records.lines import once
from adanorm.verdicts.evidence import Evidence, evidence
from adanorm.verdicts.later_plans import later_plans
from adanorm.verdicts.pair import Pair, pair
from adanorm.verdicts.plan import Plan
from adanorm.verdicts.preregistration import Norms, first_plan, preregistration
from adanorm.verdicts.quantities import Quantity


class Reading(NamedTuple):
    """Two norms as a plan reads them, with the records that it reads."""

    records: Evidence
    pair: Pair

    @property
    def plan(self) -> Plan:
        """The plan that reads."""
        return self.records.plan


def plans_to_decide(task: str, scale: str = "small", quantity: Quantity = "test") -> list[Plan]:
    """Return the plans that may decide a task for claims at a scale, newest first.

    At scale `small` these are all plans that read runs of the same size as the newest registered
    plan. That may be the paper's size, so that the task has one answer for both scales. Runs of
    any other scale are read by the first plan alone.
    """
    registered = preregistration().plans_of(task, quantity)
    size = registered[-1].scale
    if scale != "small" and (scale, size) != ("paper", "paper"):
        return [first_plan(task, scale, quantity)]
    plans = []
    if quantity == "test":
        plans += later_plans().newest_first(task)
    for plan in reversed(registered):
        if plan.scale == size:
            plans.append(plan)
    return plans


@once
def read(plan: Plan, norms: Norms, runs: str | None = None) -> Reading:
    """Return two norms (better, worse) as a plan reads the runs of a folder."""
    records = evidence(plan, runs=runs, norms=norms)
    return Reading(records, pair(records, *norms))


def deciding(plans: Sequence[Plan], norms: Norms, runs: str | None = None) -> Reading:
    """Return the newest reading that has had its first look, or else that of the first plan."""
    for plan in plans:
        reading = read(plan, norms, runs)
        if reading.pair.has_looked:
            break
    return reading


def decided_before(reading: Reading, plans: Sequence[Plan], runs: str | None) -> Iterator[Pair]:
    """Yield what older plans decided at the paper's size, newest first.

    A later plan's answer stands with every look that it has had, the first plan's if it decided.
    """
    if reading.plan.scale != "paper":
        return
    names = [plan.name for plan in plans]
    for plan in plans[names.index(reading.plan.name) + 1 :]:
        older = read(plan, reading.pair.norms, runs).pair
        is_decided = plan.name != "first" or older.answer != "open"
        if older.has_looked and is_decided:
            yield older


def deciding_pair(task: str, scale: str, norms: Norms, runs: str | None = None) -> Pair | None:
    """Return two norms (worse, better) as the plan that decides reads the runs of a scale.

    None where that is the first plan, or a plan that reads other runs or folds.
    """
    if task not in preregistration().margins:
        return None
    plans = plans_to_decide(task)
    if plans[-1].folds:
        return None
    worse, better = norms
    reading = deciding(plans, (better, worse), runs)
    is_later = reading.plan.name != "first" and reading.pair.has_looked
    return reading.pair if is_later and reading.plan.scale == scale else None


def folds_of(plan: Plan) -> list[Plan]:
    """Return the plan of each fold; a plan without folds is the only one."""
    if not plan.folds:
        return [plan]
    folds = []
    for fold in range(1, plan.folds + 1):
        folds.append(replace(plan, overrides=(*plan.overrides, f"data.fold={fold}")))
    return folds
