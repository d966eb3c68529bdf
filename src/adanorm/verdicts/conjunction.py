"""Claims over several data sets: on how many of them something holds, and statements over all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from adanorm.verdicts.comparison import Interval

RESAMPLES = 2000
DRAWS = 4000
FEWEST_RANKED = 5


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
    from statsmodels.stats.multitest import multipletests

    return multipletests(ps, method="holm")[1].tolist() if len(ps) else []


class Improvement(NamedTuple):
    """How probably a run of one norm beats a run of another, on average over data sets."""

    probability: float
    interval: Interval
    fewest_seeds: int


def probability_of_improvement(
    pairs: Mapping[str, tuple[Sequence[float], Sequence[float]]], *, lower_is_better: Sequence[str] = ()
) -> Improvement | None:
    """Return P(first > second) averaged over tasks, ties counting half (Agarwal et al. 2021).

    `pairs` are the scores of the two norms by task; None where there are none. The interval is
    the percentile bootstrap's, stratified: runs are drawn within each norm and task. It is too
    narrow for fewer than five seeds or so.
    """
    from scipy.stats import bootstrap

    signed = {
        task: tuple((-1 if task in lower_is_better else 1) * np.asarray(side, dtype=float) for side in sides)
        for task, sides in pairs.items()
    }
    samples = [side for sides in signed.values() for side in sides]
    if not samples or min(map(len, samples)) == 0:
        return None

    def average(*sides: np.ndarray, axis: int = -1) -> np.ndarray:
        wins = []
        for first, second in zip(sides[::2], sides[1::2], strict=True):
            gaps = first[..., :, None] - second[..., None, :]
            wins.append(((gaps > 0) + 0.5 * (gaps == 0)).mean(axis=(-2, -1)))
        found: np.ndarray = np.mean(wins, axis=0)
        return found

    probability = float(average(*samples))
    low = high = probability
    if min(map(len, samples)) > 1:
        drawn = bootstrap(
            samples, average, n_resamples=RESAMPLES, method="percentile", vectorized=True, rng=0
        ).confidence_interval
        low, high = float(drawn.low), float(drawn.high)
    return Improvement(probability, Interval(low, high), min(map(len, samples)))


class SignedRanks(NamedTuple):
    """The probabilities that over data sets the second is better, neither matters, the first is better."""

    worse: float
    equivalent: float
    better: float


def signed_ranks(gaps_in_margins: Sequence[float]) -> SignedRanks | None:
    """Return the Bayesian signed-rank test of gaps, each in units of its task's margin.

    The region of practical equivalence is ± 1 margin (Benavoli et al. 2014, 2017; baycomp). The gaps are
    taken as they are, without the noise of seeds. None for fewer than FEWEST_RANKED data sets, whose few
    ranks would look like certainty.
    """
    if len(gaps_in_margins) < FEWEST_RANKED:
        return None
    from baycomp import SignedRankTest

    gaps = np.asarray(gaps_in_margins, dtype=float)
    found = SignedRankTest.probs(np.zeros_like(gaps), gaps, 1.0, nsamples=DRAWS, random_state=0)
    worse, equivalent, better = (float(p) for p in found)
    return SignedRanks(worse, equivalent, better)


def sign_test(gaps: Sequence[float]) -> tuple[int, int, float]:
    """Return wins, losses and the two-sided p of as many wins if both were equally likely; ties left out."""
    from scipy.stats import binomtest

    wins, losses = sum(gap > 0 for gap in gaps), sum(gap < 0 for gap in gaps)
    return wins, losses, float(binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0
