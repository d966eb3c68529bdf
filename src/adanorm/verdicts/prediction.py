"""A cell beside the paper's one number: where it lies in what one more run would give."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean, stdev
from typing import Literal, NamedTuple

from adanorm.verdicts.variance import NO_SPREAD, Scores, Spread, TaskVariance

Place = Literal["consistent", "differs", "inconclusive"]
DIFFERS = 0.05  # outside the central 95 %
CONSISTENT = 0.20  # inside the central 80 %


class Prediction(NamedTuple):
    """Where a number lies in the distribution of one more run: in percent, p two-sided, the verdict."""

    percentile: float
    p: float
    verdict: Place


def place(number: float, *, rounding: float, mean: float, count: int, spread: Spread) -> Prediction:
    """Return where a published number lies, given the mean of `count` runs.

    One more run lies at mean + t s sqrt(1 + 1/n), t Student's with the spread's degrees of freedom;
    the number may have been rounded by up to `rounding`. *differs*: outside the central 95 %;
    *consistent*: inside the central 80 %; *inconclusive*: between.
    """
    from scipy.stats import t

    scale = spread.sd * math.sqrt(1 + 1 / count)
    distance = max(0.0, abs(number - mean) - rounding)
    p = 2 * float(t.sf(distance / scale, spread.df))
    verdict: Place = "differs" if p < DIFFERS else "consistent" if p >= CONSISTENT else "inconclusive"
    return Prediction(100 * float(t.cdf((number - mean) / scale, spread.df)), p, verdict)


def error_rates(count: int, df: float, shift: float) -> dict[Place, float]:
    """Return how often each verdict falls if the paper's mean is `shift` standard deviations from ours.

    Of numbers that are not rounded: Student's t, noncentral where shifted.
    """
    from scipy.stats import nct, t

    center = shift / math.sqrt(1 + 1 / count)

    def inside(level: float) -> float:
        reach = float(t.isf(level / 2, df))
        return float(nct.cdf(reach, df, center) - nct.cdf(-reach, df, center))

    consistent, not_different = inside(CONSISTENT), inside(DIFFERS)
    return {
        "consistent": consistent,
        "inconclusive": not_different - consistent,
        "differs": 1 - not_different,
    }


class Shift(NamedTuple):
    """How far a whole column lies from the paper's, on average over norms.

    `p_apart` takes the paper's runs of a column for independent. `p_shared` takes them for runs of one
    seed, which then moves all of them as a seed moves all of ours; None under two seeds of all norms.
    """

    mean: float
    norms: int
    p_apart: float
    p_shared: float | None


def column_shift(scores: Scores, paper: Mapping[str, float]) -> Shift | None:
    """Return how far our means lie from the paper's numbers of the same norms; None where none is known.

    Apart: t = mean gap / (s sqrt(sum(1 + 1/n)) / K), s pooled within the K norms. Shared: the paper's
    column mean is one more of ours, t = mean gap / (m sqrt(1 + 1/S)), m the standard deviation of
    the column's mean over its S seeds, on S - 1 degrees of freedom.
    """
    from scipy.stats import t

    norms = [norm for norm in paper if scores.get(norm)]
    within = TaskVariance({norm: scores[norm] for norm in norms}, 0).within
    if within is None or within.sd < NO_SPREAD:
        return None
    mean = fmean(fmean(scores[norm].values()) - paper[norm] for norm in norms)
    apart = within.sd * math.sqrt(sum(1 + 1 / len(scores[norm]) for norm in norms)) / len(norms)
    p_apart = 2 * float(t.sf(abs(mean) / apart, within.df))
    seeds = set.intersection(*({*scores[norm]} for norm in norms))
    columns = [fmean(scores[norm][seed] for norm in norms) for seed in seeds]
    if len(columns) < 2:
        return Shift(mean, len(norms), p_apart, None)
    gap = fmean(columns) - fmean(paper[norm] for norm in norms)
    shared = stdev(columns) * math.sqrt(1 + 1 / len(columns))
    p_shared = 2 * float(t.sf(abs(gap) / shared, len(columns) - 1)) if shared > NO_SPREAD else None
    return Shift(mean, len(norms), p_apart, p_shared)
