"""How many seeds would close a comparison, and what they cost: prospective, never from the gap observed."""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import cache
from typing import Literal, NamedTuple

import numpy as np

from adanorm.verdicts.sequential import Looks, Numbers

MOST_SEEDS = 2000  # no plan beyond this is one
DRAWS = 4000  # comparisons that are followed: a share of 0.8 of them is known to 0.6 %

Kind = Literal["difference", "equivalence"]


class Prospect(NamedTuple):
    """Seeds with which a comparison closes with the plan's power; None: no number does.

    `to_find` the paper's gap, if it is the true one; `to_equate` the norms within the margin, if they
    do not differ. Both count from the first seed.
    """

    to_find: int | None
    to_equate: int | None


def prospect(
    plan: Looks, *, sd: float, margin: float, paper: float | None, example_error: float = 0.0
) -> Prospect:
    """Return the seeds that close a comparison whose gap has this spread over seeds, taken as known."""
    known = {"sd": sd, "example_error": example_error}
    to_find = seeds_looked_at(plan, abs(paper or 0.0), kind="difference", **known)
    return Prospect(to_find, seeds_looked_at(plan, margin, kind="equivalence", **known))


def seeds_looked_at(
    plan: Looks, effect: float, *, kind: Kind, sd: float, example_error: float = 0.0
) -> int | None:
    """Return the fewest seeds by which the plan with its looks closes, with its power.

    Of a difference: *better*, where the true gap is `effect`. Of equivalence: within ± `effect`, of norms
    that do not differ. By DRAWS comparisons that are followed from look to look, the same for every
    caller. Where the plan ends before that, the seeds of one that is looked at once, and more than the
    plan has; None where MOST_SEEDS are too few.
    """
    if effect == 0:
        return None
    drawn, bounds, reaches = _drawn(plan.after), *_quantiles(plan)
    errors = np.hypot(sd * drawn.deviations / np.sqrt(plan.after), example_error)
    gaps = sd * drawn.means + example_error * drawn.examples[:, None]
    if kind == "difference":
        closes = gaps + effect > bounds * errors
    else:
        closes = np.abs(gaps) + reaches * errors < effect
    by_then = np.logical_or.accumulate(closes, axis=1).mean(axis=0)
    enough = np.flatnonzero(by_then >= plan.power)
    if len(enough):
        return plan.after[int(enough[0])]
    once = seeds_needed(plan, effect, kind=kind, sd=sd, prior_df=0, example_error=example_error)
    return None if once is None else max(once, plan.after[-1] + 1)


class _Drawn(NamedTuple):
    """Standard normal gaps: mean and deviation at each look (draws, looks), and an example error (draws,)."""

    means: Numbers
    deviations: Numbers
    examples: Numbers


@cache
def _drawn(looks: tuple[int, ...]) -> _Drawn:
    random = np.random.default_rng(0)
    gaps = random.standard_normal((DRAWS, looks[-1]))
    seeds = np.array(looks)
    means, squares = ((gaps**power).cumsum(axis=1)[:, seeds - 1] / seeds for power in (1, 2))
    deviations = np.sqrt((squares - means**2) * seeds / (seeds - 1))
    return _Drawn(means, deviations, random.standard_normal(DRAWS))


@cache
def _quantiles(plan: Looks) -> tuple[Numbers, Numbers]:
    """Return Student's t of every look: of a difference, of equivalence."""
    from scipy.special import stdtrit

    levels = np.array([plan.levels(seeds) for seeds in plan.after])
    different, equivalent = -stdtrit(np.array(plan.after) - 1, levels.T / 2)
    return different, equivalent


def seeds_needed(
    plan: Looks,
    effect: float,
    *,
    kind: Kind,
    sd: float,
    prior_df: float,
    example_error: float = 0.0,
) -> int | None:
    """Return the fewest seeds of a plan that is looked at once; None where MOST_SEEDS are too few.

    With its power; the variance is known with n - 1 + prior_df degrees of freedom. Of a
    difference: a two-sided t-test of a true gap `effect`. Of equivalence: two one-sided tests
    within ± `effect` of norms that do not differ, whose power is 2 P - 1 with P that of one of them.
    """
    if effect == 0:
        return None
    from scipy.stats import nct, t

    def power(count: int) -> float:
        df = count - 1 + prior_df
        center = effect / math.sqrt(sd**2 / count + example_error**2)
        if kind == "difference":
            bound = t.isf(plan.level / 2, df)
            return float(nct.sf(bound, df, center) + nct.cdf(-bound, df, center))
        return 2 * float(nct.sf(t.isf(plan.level, df), df, center)) - 1

    # More seeds find more: the first that do are found by halving.
    counts = range(2, MOST_SEEDS + 1)
    first = bisect_left(counts, plan.power, key=power)
    return counts[first] if first < len(counts) else None
