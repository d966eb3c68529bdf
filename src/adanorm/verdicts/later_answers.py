"""What the plans of conf/plans/later.yaml answer, each comparison in the order of its reading."""

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from adanorm.config.paths import choices
from adanorm.studies.study import load_study
from adanorm.verdicts.deciding import read
from adanorm.verdicts.later_plans import LaterPlan, later_plans
from adanorm.verdicts.pair import Pair
from adanorm.verdicts.plan import Plan


class LaterAnswer(NamedTuple):
    """Two norms on a data set by a later plan; `pair` is None behind a gate that has not opened."""

    plan: Plan
    norms: tuple[str, str]  # worse, better
    pair: Pair | None


def later_answers(runs: str | None = None) -> list[LaterAnswer]:
    """Return the answers of all later plans whose scale and study exist."""
    plans = later_plans().plans
    by_plan = [answers_of(name, runs) for name, entry in plans.items() if _can_run(entry)]
    return [*chain(*by_plan)]


def answers_of(name: str, runs: str | None = None) -> list[LaterAnswer]:
    """Return the answers of one later plan, whose scale and study exist."""
    entry = later_plans().plans[name]
    answers: list[LaterAnswer] = []
    for task in _tasks(entry):
        for quantity in (None, entry.also) if entry.also else (None,):
            plan = later_plans().plan(
                name,
                task,
                quantity,
            )
            answers += _answers_by(
                plan,
                entry,
                runs,
            )
    return answers


def without_runs() -> list[str]:
    """Return the names of the plans that can have no runs, as their study or scale does not exist."""
    return [name for name, entry in later_plans().plans.items() if not _can_run(entry)]


def _can_run(entry: LaterPlan) -> bool:
    has_study = entry.study is None or entry.study in choices("study")
    has_scale = entry.scale is None or entry.scale in choices("scale")
    return has_study and has_scale


def _tasks(entry: LaterPlan) -> list[str]:
    """Return the tasks of a plan; a plan with a study reads those that are columns of the study."""
    if entry.study is None:
        return entry.data_sets
    columns = load_study(entry.study).columns
    return [task for task in entry.data_sets if task in columns]


def _answers_by(plan: Plan, entry: LaterPlan, runs: str | None) -> Iterator[LaterAnswer]:
    comparisons = entry.comparisons or (later_plans().norms_of_summary,)
    is_open = True
    for position, (worse, better) in enumerate(comparisons):
        compared = read(plan, (better, worse), runs).pair if is_open else None
        yield LaterAnswer(plan, (worse, better), compared)
        if compared and position == 0:
            is_open = not entry.comparisons or _opens(compared)


def _opens(first: Pair) -> bool:
    """Return whether the first comparison makes a bed a positive control, so that the rest is read.

    The norm must be better by more than the margin, by the lower end of the 95 % interval. Where
    the other diverges, which has no interval, Fisher's exact test decides.
    """
    if first.divergence_p is not None:
        return first.answer == "better"
    comparison = first.comparison
    return comparison is not None and comparison.interval.low > first.plan.margin
