"""Claims over several data sets: on how many of them something holds, and statements over all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def partial_conjunction(ps: Sequence[float], at_least: int) -> float:
    """Return p of a hypothesis' being true on at least so many of the data sets that `ps` are of.

    Against its being true on fewer (Benjamini & Heller 2008): the largest len(ps) - at_least + 1 of
    independent p-values, combined after Fisher. On all: the largest, an intersection-union test (Berger
    1982), which needs no correction. On one or more: Fisher's test of all.
    """
    from scipy.stats import combine_pvalues

    if not 1 <= at_least <= len(ps):
        raise ValueError(f"at least {at_least} of {len(ps)}: must be one of 1 to {len(ps)}")
    largest = sorted(ps)[at_least - 1 :]
    return min(1.0, float(combine_pvalues(largest, method="fisher").pvalue))


def count_shown(ps: Sequence[float], level: float) -> int:
    """Return the largest number of data sets on which a hypothesis is shown to be true; perhaps 0."""
    shown = (count for count in range(len(ps), 0, -1) if partial_conjunction(ps, count) <= level)
    return next(shown, 0)


def corrected(ps: Sequence[float]) -> list[float]:
    """Return p-values of a family in their order, corrected for their number (Holm 1979)."""
    values = np.asarray(ps, dtype=float)
    order, count = np.argsort(values), len(values)
    adjusted = np.empty(count)
    adjusted[order] = np.minimum(np.maximum.accumulate((count - np.arange(count)) * values[order]), 1)
    return adjusted.tolist()


def sign_test(gaps: Sequence[float]) -> tuple[int, int, float]:
    """Return wins, losses and the two-sided p of as many wins if both were equally likely; ties left out."""
    from scipy.stats import binomtest

    wins, losses = sum(gap > 0 for gap in gaps), sum(gap < 0 for gap in gaps)
    return wins, losses, float(binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0
