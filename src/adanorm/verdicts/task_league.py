"""Leagues of the norms on record, and of any scores, by the plans that decide here."""

from typing import NamedTuple

from adanorm.stats.comparison import Comparison
from adanorm.stats.conjunction import League, league_of
from adanorm.stats.variance import Scores, TaskVariance
from adanorm.verdicts.cell import evidence
from adanorm.verdicts.claims import SCALES
from adanorm.verdicts.pair import compared, until_last_look
from adanorm.verdicts.preregistration import preregistration


class TaskLeague(NamedTuple):
    """The league of a task's norms by the runs of one scale; `left_out` says why others are missing."""

    task: str
    scale: str
    margin: float
    league: League
    left_out: dict[str, str]


def plan_names() -> list[str]:
    """Return the names of the plans that read seeds and no folds: `first`, and later ones."""
    return [
        "first",
        *(name for name, plan in preregistration().plans.items() if plan.folds is None),
    ]


def league_by_plan(scores: Scores, margin: float, plan: str) -> League:
    """Return the league of scores with each pair read as a plan reads it; only seeds count as noise.

    In the first plan, the other names moderate a pair's variance at the planned seeds; more seeds
    are a look.
    """
    registered, name = preregistration(), None if plan == "first" else plan
    variance = TaskVariance(scores, registered.prior_df_at_most)

    def by_plan(first: str, second: str) -> Comparison | None:
        until_look = until_last_look(variance, first, second, name)
        return compared(
            until_look, first, second, until_look.gaps(second, first), margin=margin, plan=name
        )

    return league_of(scores, by_plan, registered.looks_of(name))


def task_leagues(runs: str | None = None) -> list[TaskLeague]:
    """Return the league of each task whose norms can be compared: at scale paper, otherwise at small."""
    return [league for task in preregistration().margins if (league := _of_task(task, runs))]


def _of_task(task: str, runs: str | None) -> TaskLeague | None:
    registered = preregistration()
    for scale in SCALES:
        name = registered.plan_of(task, scale)
        if scale != "paper" and (name not in plan_names() or registered.plans[name].scale != scale):
            continue
        margin, records = (
            registered.margin(task, "test", name),
            evidence(task, scale, runs=runs, plan=name),
        )
        assert margin is not None, "every task of `margins` has one"
        league = league_by_plan(records.variance.scores, margin, name or "first")
        if any(league.pairs.values()):
            left_out = {norm: cell.setback for norm, cell in records.norms.items() if cell.setback}
            return TaskLeague(task, scale, margin, league, left_out)
    return None
