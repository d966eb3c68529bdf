"""A cell beside the paper's one number: where it lies in what one more run would give."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from adanorm.verdicts.variance import Spread

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
    from scipy.special import stdtr

    scale = spread.sd * math.sqrt(1 + 1 / count)
    distance = max(0.0, abs(number - mean) - rounding)
    p = 2 * float(stdtr(spread.df, -distance / scale))
    verdict: Place = "differs" if p < DIFFERS else "consistent" if p >= CONSISTENT else "inconclusive"
    return Prediction(100 * float(stdtr(spread.df, (number - mean) / scale)), p, verdict)
