"""Leagues of the norms on record, and of any scores, by the plans that decide here."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from adanorm.stats.comparison import Comparison
from adanorm.stats.conjunction import League, league_of
from adanorm.stats.variance import Scores, TaskVariance
from adanorm.verdicts.cell import Cell
from adanorm.verdicts.deciding import deciding_pair
from adanorm.verdicts.evidence import evidence
from adanorm.verdicts.pair import Pair, pair
from adanorm.verdicts.plan import Plan, compare_by
from adanorm.verdicts.preregistration import preregistration

BASE = "layernorm"


class TaskLeague(NamedTuple):
    """The league of a task's norms by a plan; `left_out` says why others are missing.

    `pairs` has what the plan answers on each norm beside LayerNorm, with the noise of examples.
    """

    task: str
    plan: Plan
    league: League
    cells: Mapping[str, Cell]
    left_out: dict[str, str]
    pairs: Mapping[str, Pair]


def plan_names() -> list[str]:
    """Return the names of the plans that read seeds and no folds: `first`, and later ones."""
    plans = preregistration().plans
    return ["first", *(name for name, plan in plans.items() if plan.folds is None)]


def plan_for_scores(name: str, margin: float) -> Plan:
    """Return a plan, one of `plan_names`, for scores of any origin."""
    return replace(preregistration().plan(name, task=""), margin=margin)


def league_by_plan(scores: Scores, plan: Plan) -> League:
    """Return the league of scores with each pair read as a plan reads it.

    Only seeds count as noise. In the first plan, the other names moderate a pair's variance at the
    planned seeds; more seeds are a look.
    """
    variance = TaskVariance(scores, preregistration().prior_df_at_most)

    def by_plan(first: str, second: str) -> Comparison | None:
        return compare_by(plan, [variance], (first, second))

    return league_of(scores, by_plan, plan.looks)


def task_leagues(runs: str | None = None) -> list[TaskLeague]:
    """Return the league of each task whose norms can be compared, by the newest plan that does."""
    leagues = []
    for task in preregistration().margins:
        by_newest = _by_newest_plan(task, runs)
        if by_newest is not None:
            leagues.append(by_newest)
    return leagues


def _by_newest_plan(task: str, runs: str | None) -> TaskLeague | None:
    for plan in reversed(preregistration().plans_of(task)):
        if plan.folds:
            continue
        records = evidence(plan, runs=runs)
        league = league_by_plan(records.variance.scores, plan)
        if any(league.pairs.values()):
            setbacks = {norm: cell.setback for norm, cell in records.norms.items()}
            left_out = {norm: setback for norm, setback in setbacks.items() if setback}
            pairs = {}
            for norm in league.scores:
                if norm != BASE and BASE in league.scores:
                    decided = deciding_pair(task, plan.scale, (BASE, norm), runs)
                    pairs[norm] = decided or pair(records, norm, BASE)
            return TaskLeague(task, plan, league, records.norms, left_out, pairs)
    return None
