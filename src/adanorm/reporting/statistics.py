"""Which differences are real: intervals, paired tests, corrections, and the seeds that it takes."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
POWER = 0.8
MOST_SEEDS = 1000  # no plan beyond this is one
RESAMPLES = 9999

K = TypeVar("K")
Values = NDArray[np.floating[Any]]


class Interval(NamedTuple):
    """The bounds of a confidence interval."""

    low: float
    high: float


class Difference(NamedTuple):
    """How much a second set of runs scores above a first, paired by seed.

    `interval` and `p` are of Student's paired t-test, None with fewer than two pairs; `needed` is
    how many pairs find a difference of this size with power 0.8 at level 0.05, None where that
    is more than MOST_SEEDS or there is no spread to go by.
    """

    mean: float
    interval: Interval | None
    p: float | None
    pairs: int
    needed: int | None


def t_interval(scores: Sequence[float]) -> Interval | None:
    """Return the 95 % t interval of the mean of independent scores; None for fewer than two."""
    from scipy import stats

    count = len(scores)
    if count < 2:
        return None
    reach = stats.t.ppf((1 + CONFIDENCE) / 2, count - 1) * np.std(scores, ddof=1) / math.sqrt(count)
    return Interval(float(np.mean(scores) - reach), float(np.mean(scores) + reach))


def difference(first: Sequence[float], second: Sequence[float]) -> Difference:
    """Return the difference of the second scores from the first, entry i of both being one seed's."""
    from scipy import stats

    gaps = np.subtract(second, first)
    mean, interval = float(gaps.mean()), t_interval(gaps.tolist())
    if interval is None:
        return Difference(mean, None, None, len(gaps), None)
    if np.allclose(gaps, gaps[0], rtol=0, atol=1e-12):  # no spread: the t-test divides by zero
        return Difference(mean, interval, 1.0 if abs(mean) < 1e-12 else 0.0, len(gaps), None)
    p = float(stats.ttest_1samp(gaps, 0).pvalue)
    return Difference(mean, interval, p, len(gaps), seeds_needed(mean, float(gaps.std(ddof=1))))


def seeds_needed(gap: float, spread: float) -> int | None:
    """Return the paired runs that a two-sided t-test at level 0.05 needs to find a gap with power 0.8.

    `spread` is the standard deviation of the paired differences. None beyond MOST_SEEDS.
    """
    from scipy import stats

    if gap == 0 or spread == 0:
        return None

    def finds_it(count: int) -> bool:
        critical = stats.t.ppf(0.975, count - 1)
        shift = abs(gap) / spread * math.sqrt(count)
        power = stats.nct.sf(critical, count - 1, shift) + stats.nct.cdf(-critical, count - 1, shift)
        if math.isnan(power):  # scipy gives none far out, where the normal's is as good
            power = stats.norm.sf(critical - shift)
        return bool(power >= POWER)

    # More pairs find more: the first that do are found by halving.
    counts = range(2, MOST_SEEDS + 1)
    place = bisect_left(counts, True, key=finds_it)
    return counts[place] if place < len(counts) else None


def holm(ps: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number (Holm 1979), in their order."""
    order = np.argsort(ps)
    # Not statsmodels' multipletests: it collects garbage at each call, half a second among many objects.
    stepped = np.asarray(ps, dtype=float)[order] * np.arange(len(ps), 0, -1)
    corrected = np.empty(len(ps))
    corrected[order] = np.minimum(1, np.maximum.accumulate(stepped))
    return corrected.tolist()


def holm_by(ps: Mapping[K, float | None]) -> dict[K, float]:
    """Return the p-values there are, by their keys, corrected for their number (Holm 1979)."""
    known = {key: p for key, p in ps.items() if p is not None}
    return dict(zip(known, holm(list(known.values())), strict=True))


class Examples(NamedTuple):
    """How much more a second system gets right of a test set, and where the doubt comes from.

    `first` and `second` below are (seeds, examples): what each run got of each example, in the
    metric's own unit. `p` is of a sign-flip permutation test over examples, of differences
    averaged over seeds; `seed_error` and `example_error` are the standard errors of the mean
    difference that come from the seeds and from the choice of examples.
    """

    mean: float
    interval: Interval
    p: float
    seed_error: float | None
    example_error: float


def over_examples(first: Values, second: Values, *, seed: int = 0) -> Examples:
    """Return the difference of two systems on the same examples, (seeds, examples) each.

    The interval is the percentile bootstrap's over examples.
    """
    from scipy import stats

    gaps = np.asarray(second, dtype=float) - np.asarray(first, dtype=float)
    by_example = gaps.mean(0)
    random = np.random.default_rng(seed)
    # Only examples that differ can change the mean: flipping a zero changes nothing.
    unlike = by_example[by_example != 0]
    observed, reached = abs(unlike.sum()), 0
    drawn: list[Values] = []
    for start in range(0, RESAMPLES, 500):  # in parts: the whole would not fit small machines
        count = min(500, RESAMPLES - start)
        signs = random.integers(0, 2, (count, len(unlike)), dtype=np.int8) * 2 - 1
        reached += int((np.abs(signs @ unlike) >= observed - 1e-9).sum())
        chosen = random.integers(0, len(by_example), (count, len(by_example)))
        drawn.append(by_example[chosen].mean(1))
    low, high = np.quantile(np.concatenate(drawn), [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    seeds = len(gaps)
    seed_error = float(gaps.mean(1).std(ddof=1) / math.sqrt(seeds)) if seeds > 1 else None
    return Examples(
        mean=float(by_example.mean()),
        interval=Interval(float(low), float(high)),
        p=(1 + reached) / (1 + RESAMPLES),
        seed_error=seed_error,
        example_error=float(stats.sem(by_example)),
    )


def significantly_best(scores: dict[str, dict[int, float]], *, lower_is_better: bool) -> str | None:
    """Return the name whose scores, by seed, are better than every other's; None where none is.

    Better than each of the others by a paired t-test, corrected over them (Holm 1979) at 0.05.
    """
    sign = -1 if lower_is_better else 1
    means = {name: sign * float(np.mean(list(found.values()))) for name, found in scores.items() if found}
    if len(means) < 2 or len(means) < len(scores):
        return None
    best = max(means, key=lambda name: means[name])
    ps = []
    for name in means:
        if name != best:
            seeds = sorted(scores[best].keys() & scores[name].keys())
            gap = difference([scores[name][s] for s in seeds], [scores[best][s] for s in seeds])
            ps.append(1.0 if gap.p is None else gap.p)
    return best if all(p < 1 - CONFIDENCE for p in holm(ps)) else None
