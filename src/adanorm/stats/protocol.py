"""What a table of single runs would show: one run of each norm, or the best of several tries.

Runs on record are drawn with replacement, so every figure is an exact sum over them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from adanorm.stats.sequential import Numbers


class Tried(NamedTuple):
    """The table's view of one data set: the mean lead that it shows, and how often it is a lead.

    A tie counts half. `as_large` is the probability of a lead of at least a given size.
    """

    lead: float
    ahead: float
    as_large: float


def chosen_shares(criterion: Numbers, tries: int) -> Numbers:
    """Return how often each run is the best of `tries` draws by a criterion, (runs,); sums to 1.

    Higher is better; runs of equal criterion share their part. By order statistics: the best of k
    draws from n lies among the r lowest with probability (r / n)^k.
    """
    below_or_equal = (criterion[:, None] >= criterion).sum(axis=1) / len(criterion)
    below = (criterion[:, None] > criterion).sum(axis=1) / len(criterion)
    equal = (criterion[:, None] == criterion).sum(axis=1)
    return (below_or_equal**tries - below**tries) / equal


def best_of(
    scores: Numbers,
    against: Numbers,
    *,
    criterion: Numbers | None = None,
    tries: int = 1,
    size: float = 0.0,
) -> Tried:
    """Return what a table shows for the best of `tries` runs beside one run of another norm.

    `scores` (runs,) and `against` (other runs,) are higher for better runs. The best is chosen by
    `criterion` (runs,), such as validation scores; None: by the scores themselves.
    """
    shares = chosen_shares(scores if criterion is None else criterion, tries)
    leads = scores[:, None] - against
    ahead = (leads > 0) + (leads == 0) / 2
    return Tried(
        float(shares @ leads.mean(axis=1)),
        float(shares @ ahead.mean(axis=1)),
        float(shares @ (leads >= size).mean(axis=1)),
    )


def count_distribution(probabilities: Sequence[float]) -> Numbers:
    """Return the probabilities that 0, 1, ... of independent events happen, (events + 1,)."""
    distribution = np.ones(1)
    for probability in probabilities:
        distribution = np.convolve(distribution, [1 - probability, probability])
    return distribution
