"""How many seeds would close a comparison, and what they cost: prospective, never from the gap observed."""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import cache
from typing import Literal, NamedTuple

import numpy as np

from adanorm.verdicts.preregistration import Preregistration
from adanorm.verdicts.sequential import Numbers, look_levels

MOST_SEEDS = 2000  # no plan beyond this is one
DRAWS = 4000  # comparisons that are followed: a share of 0.8 of them is known to 0.6 %

Kind = Literal["difference", "equivalence"]


class Prospect(NamedTuple):
    """Seeds with which a comparison closes with the registered power; None: no number does.

    `to_find` the paper's gap, if it is the true one; `to_equate` the norms within the margin, if they
    do not differ. Both count from the first seed.
    """

    to_find: int | None
    to_equate: int | None


def prospect(
    registered: Preregistration, *, sd: float, margin: float, paper: float | None, example_error: float = 0.0
) -> Prospect:
    """Return the seeds that close a comparison whose gap has this spread over seeds, taken as known."""
    known = {"sd": sd, "example_error": example_error}
    to_find = seeds_looked_at(registered, abs(paper or 0.0), kind="difference", **known)
    return Prospect(to_find, seeds_looked_at(registered, margin, kind="equivalence", **known))


def seeds_looked_at(
    registered: Preregistration, effect: float, *, kind: Kind, sd: float, example_error: float = 0.0
) -> int | None:
    """Return the fewest seeds by which the registered plan with its looks closes, with the registered power.

    Of a difference: *better*, where the true gap is `effect`. Of equivalence: within ± `effect`, of norms
    that do not differ. By DRAWS comparisons that are followed from look to look, the same for every
    caller. Where the plan ends before that, the seeds of one that is looked at once, and more than the
    plan has; None where MOST_SEEDS are too few.
    """
    if effect == 0:
        return None
    plan = registered.stopping
    drawn = _drawn(plan.planned, plan.most)
    seeds = np.arange(plan.planned, plan.most + 1)
    bounds, reaches = _quantiles(registered.level, **plan.model_dump())
    errors = np.hypot(sd * drawn.deviations / np.sqrt(seeds), example_error)
    true_gap = effect if kind == "difference" else 0.0
    means = true_gap + sd * drawn.means + example_error * drawn.examples[:, None]
    equate = kind == "equivalence"
    closes = np.abs(means) + reaches * errors < effect if equate else means > bounds * errors
    by_then = np.logical_or.accumulate(closes, axis=1).mean(axis=0)
    enough = np.flatnonzero(by_then >= registered.power)
    if len(enough):
        return int(seeds[enough[0]])
    once = seeds_needed(registered, effect, kind=kind, sd=sd, prior_df=0, example_error=example_error)
    return None if once is None else max(once, plan.most + 1)


class _Drawn(NamedTuple):
    """Standard normal gaps: mean and deviation at each look (draws, looks), and an example error (draws,)."""

    means: Numbers
    deviations: Numbers
    examples: Numbers


@cache
def _drawn(planned: int, most: int) -> _Drawn:
    random = np.random.default_rng(0)
    gaps = random.standard_normal((DRAWS, most))
    seeds = np.arange(planned, most + 1)
    means, squares = ((gaps**power).cumsum(axis=1)[:, planned - 1 :] / seeds for power in (1, 2))
    deviations = np.sqrt((squares - means**2) * seeds / (seeds - 1))
    return _Drawn(means, deviations, random.standard_normal(DRAWS))


@cache
def _quantiles(level: float, *, planned: int, most: int, spending: float) -> tuple[Numbers, Numbers]:
    """Return Student's t of every look: of a difference, of equivalence."""
    from scipy.stats import t

    seeds = range(planned, most + 1)
    looks = tuple(seeds)
    levels = [look_levels(n, looks=looks, level=level, spending=spending) for n in seeds]
    different, equivalent = (
        t.isf(np.array(part) / 2, np.array(seeds) - 1) for part in zip(*levels, strict=True)
    )
    return different, equivalent


def seeds_needed(
    registered: Preregistration,
    effect: float,
    *,
    kind: Kind,
    sd: float,
    prior_df: float,
    example_error: float = 0.0,
) -> int | None:
    """Return the fewest seeds of a plan that is looked at once; None where MOST_SEEDS are too few.

    With the registered power; the variance is known with n - 1 + prior_df degrees of freedom. Of a
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
            bound = t.isf(registered.level / 2, df)
            return float(nct.sf(bound, df, center) + nct.cdf(-bound, df, center))
        return 2 * float(nct.sf(t.isf(registered.level, df), df, center)) - 1

    # More seeds find more: the first that do are found by halving.
    counts = range(2, MOST_SEEDS + 1)
    place = bisect_left(counts, registered.power, key=power)
    return counts[place] if place < len(counts) else None
