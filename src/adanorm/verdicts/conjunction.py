"""Several comparisons together: families, counts of data sets, and one estimate over tasks."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

import numpy as np

from adanorm.verdicts.comparison import Comparison, compare_gaps
from adanorm.verdicts.sequential import Levels
from adanorm.verdicts.variance import TaskVariance


def partial_conjunction(ps: Sequence[float], at_least: int) -> float:
    """Return p of a hypothesis' being true on at least so many of the data sets that `ps` are of.

    The largest len(ps) - at_least + 1 of independent p-values, combined after Fisher (Benjamini & Heller
    2008). On all: the largest, an intersection-union test (Berger 1982), which needs no correction.
    """
    from scipy.special import chdtrc

    if not 1 <= at_least <= len(ps):
        raise ValueError(f"at least {at_least} of {len(ps)}: must be one of 1 to {len(ps)}")
    largest = sorted(ps)[at_least - 1 :]
    return float(chdtrc(2 * len(largest), -2 * np.log(largest).sum()))


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


def in_family(comparisons: Sequence[Comparison | None]) -> list[Comparison | None]:
    """Return comparisons with their p corrected over all of them, None counting with a p of 1."""
    ps = corrected([1.0 if one is None else one.p for one in comparisons])
    return [one and replace(one, family_p=p) for one, p in zip(comparisons, ps, strict=True)]


def pooled(comparisons: Sequence[Comparison]) -> Comparison:
    """Return one estimate of a gap that all comparisons share, each weighted by its inverse variance.

    Of comparisons in one unit under one margin. With w a weight by the sum W of all, the variance is
    (1 + 4 sum(w (1 - w) / df)) / W, for weights that are estimates too (Meier 1953), on 1 / sum(w^2 / df)
    degrees of freedom. Of looks the strictest levels are taken.
    """
    weights, dfs = np.array([(one.error**-2, one.df) for one in comparisons]).T
    shares, seeds = weights / weights.sum(), sum(one.seeds for one in comparisons)
    variance = (1 + 4 * (shares * (1 - shares) / dfs).sum()) / weights.sum()
    return Comparison(
        gap=float(shares @ [one.gap for one in comparisons]),
        sd=float(np.sqrt(seeds * variance)),
        df=float(1 / (shares**2 / dfs).sum()),
        seeds=seeds,
        margin=comparisons[0].margin,
        levels=Levels(*(min(levels) for levels in zip(*(one.levels for one in comparisons), strict=True))),
        level=comparisons[0].level,
    )


def significantly_best(variance: TaskVariance, level: float) -> str | None:
    """Return the norm that beats every other of a task by corrected moderated tests; None where none does."""
    scores = variance.scores
    if len(scores) < 2 or not all(scores.values()):
        return None
    best = max(scores, key=lambda norm: fmean(scores[norm].values()))
    comparisons = []
    for other in scores.keys() - {best}:
        spread = variance.of_difference(other, best)
        comparisons.append(spread and compare_gaps(variance.gaps(other, best), spread=spread, level=level))
    return best if all(one is not None and one.sign == "ahead" for one in in_family(comparisons)) else None


def sign_test(gaps: Sequence[float]) -> tuple[int, int, float]:
    """Return wins, losses and the two-sided p of as many wins if both were equally likely; ties left out."""
    from scipy.stats import binomtest

    wins, losses = sum(gap > 0 for gap in gaps), sum(gap < 0 for gap in gaps)
    return wins, losses, float(binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0
