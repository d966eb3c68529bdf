"""How many seeds would close a comparison, and what they cost: prospective, never from the gap observed."""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import Literal, NamedTuple

from adanorm.reporting.verdicts.preregistration import Preregistration

MOST_SEEDS = 2000  # no plan beyond this is one


class Prospect(NamedTuple):
    """Seeds with which a comparison closes with the registered power; None: no number does.

    `to_find` the paper's gap, if it is the true one; `to_equate` the norms within the margin, if they
    do not differ. Both count from the first seed.
    """

    to_find: int | None
    to_equate: int | None


def prospect(
    registered: Preregistration,
    *,
    sd: float,
    prior_df: float,
    margin: float,
    paper: float | None,
    example_error: float = 0.0,
) -> Prospect:
    """Return the seeds that close a comparison whose gap has this spread over seeds.

    The variance is taken as it is now, known with n - 1 + prior_df degrees of freedom.
    """
    known = {"sd": sd, "prior_df": prior_df, "example_error": example_error}
    to_find = seeds_needed(registered, abs(paper or 0.0), kind="difference", **known)
    return Prospect(to_find, seeds_needed(registered, margin, kind="equivalence", **known))


def seeds_needed(
    registered: Preregistration,
    effect: float,
    *,
    kind: Literal["difference", "equivalence"],
    sd: float,
    prior_df: float,
    example_error: float = 0.0,
) -> int | None:
    """Return the fewest seeds with the registered power; None where MOST_SEEDS are too few.

    Of a plan that is looked at once; one with a look after each seed takes fewer on average. Of a
    difference: a two-sided t-test of a true gap `effect`. Of equivalence: two one-sided tests
    within ± `effect` of norms that do not differ, whose power is 2 P - 1 with P that of one of them.
    """
    if effect == 0:
        return None
    from statsmodels.stats.power import TTestPower

    test = TTestPower()

    def power(count: int) -> float:
        spread, df = math.sqrt(sd**2 + count * example_error**2), count - 1 + prior_df
        if kind == "difference":
            return float(test.power(effect / spread, count, registered.level, df=df))
        one = float(test.power(effect / spread, count, registered.level, df=df, alternative="larger"))
        return 2 * one - 1

    # More seeds find more: the first that do are found by halving.
    counts = range(2, MOST_SEEDS + 1)
    place = bisect_left(counts, registered.power, key=power)
    return counts[place] if place < len(counts) else None
