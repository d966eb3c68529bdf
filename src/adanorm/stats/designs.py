"""The gap of two groups of scores, whose seeds are blocks or are not."""

import math
from typing import Literal, NamedTuple

import numpy as np

from adanorm.stats.sequential import Numbers

Design = Literal["paired", "independent"]


class Gap(NamedTuple):
    """By how much the first group scores above the second, with the standard error from seeds alone."""

    mean: float
    error: float
    df: float


def gap_of(first: Numbers, second: Numbers, design: Design) -> Gap:
    """Return the gap of scores (seeds,) of two groups.

    `paired`: the scores at one index share a seed, and Student's t has n - 1 degrees of freedom.
    `independent`: they share nothing (Welch 1947), with Satterthwaite's degrees of freedom. Raises
    ValueError for groups of fewer than two scores, or pairs of unequal numbers.
    """
    if min(len(first), len(second)) < 2:
        raise ValueError(f"{len(first)} and {len(second)} scores: a spread needs two of each")
    mean = float(first.mean() - second.mean())
    if design == "paired":
        if len(first) != len(second):
            raise ValueError(f"{len(first)} and {len(second)} scores: pairs need equally many")
        deviation = float((first - second).std(ddof=1))
        return Gap(
            mean,
            deviation / math.sqrt(len(first)),
            len(first) - 1.0,
        )
    parts = np.array([group.var(ddof=1) / len(group) for group in (first, second)])
    freedom = np.array([len(first) - 1.0, len(second) - 1.0])
    variance = float(parts.sum())
    if variance == 0:
        return Gap(
            mean,
            0.0,
            float(freedom.sum()),
        )
    df = variance**2 / float((parts**2 / freedom).sum())
    return Gap(mean, math.sqrt(variance), df)
