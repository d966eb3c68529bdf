"""The one inequality of a trial: whether the mean lead over the beds, in margins, is above zero."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from adanorm.stats.comparison import Answer, Interval, student_interval
from adanorm.stats.sequential import Looks
from adanorm.stats.summary import random_effects

ENOUGH_BEDS = 3  # with fewer, the spread between beds cannot be told
ANY = Interval(-math.inf, math.inf)


class Lead(NamedTuple):
    """A lead over LayerNorm in margins, with its standard error and degrees of freedom."""

    value: float
    error: float
    df: float


class Verdict(NamedTuple):
    """The answer at a look; without a comparison there is no mean lead, and it may be any."""

    answer: Answer
    mean: float | None = None
    interval: Interval = ANY  # which decides the sign
    narrow: Interval = ANY  # which decides the size

    @property
    def decisive(self) -> Interval:
        """The interval that decides the answer."""
        return self.narrow if self.answer == "equivalent" else self.interval


def verdict_on(leads: Sequence[Lead], looks: Looks, look: int) -> Verdict:
    """Return the answer on the mean of leads; its sign goes before its size."""
    mean = mean_lead(leads)
    levels = looks.levels(look)
    interval = student_interval(*mean, levels.difference)
    narrow = student_interval(*mean, levels.equivalence)
    answer: Answer = "open"
    if interval.low > 0:
        answer = "better"
    elif interval.high < 0:
        answer = "worse"
    elif narrow.low > -1 and narrow.high < 1:
        answer = "equivalent"
    return Verdict(answer, mean.value, interval, narrow)


def mean_lead(leads: Sequence[Lead]) -> Lead:
    """Return the mean lead over beds.

    From ENOUGH_BEDS beds on it is that of random effects, which speaks for further beds too. Fewer
    speak for themselves: their plain mean, with Satterthwaite's degrees of freedom.
    """
    values, errors, dfs = np.array(leads).T
    if len(leads) >= ENOUGH_BEDS:
        effects = random_effects(values, errors)
        return Lead(effects.mean, effects.error, effects.df)
    variances = errors**2
    variance = float(variances.sum())
    error = math.sqrt(variance) / len(leads)
    spread = float((variances**2 / dfs).sum())
    df = variance**2 / spread
    return Lead(float(values.mean()), error, df)
