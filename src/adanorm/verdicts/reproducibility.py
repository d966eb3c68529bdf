"""How reproducible the paper's tables are, by the field's measures (QRA++, Belz 2025)."""

import math
from collections.abc import Sequence
from itertools import combinations
from statistics import fmean, stdev
from typing import Any, NamedTuple

from adanorm.records.published import published, published_tasks
from adanorm.stats.variance import Scores
from adanorm.verdicts.cell import evidence
from adanorm.verdicts.pair import published_score


class Agreement(NamedTuple):
    """How well our runs uphold the paper's numbers on a task."""

    norms: int
    upheld: int  # pairs of norms in the same order in both
    ordered: int  # pairs of norms that the paper orders
    p_upheld: float | None  # of Kendall's test, one-sided; None for all tasks together
    spearman: float | None  # None if either column does not vary
    pearson: float | None
    variation: float  # the mean of `variation(ours, the paper's)` over norms
    own_upheld: float | None = None  # None with fewer than two shared seeds
    task: str = ""  # empty: all tasks together
    confirmed: bool = True  # only numbers that a public source confirms


def agreement(ours: Sequence[float], papers: Sequence[float]) -> Agreement | None:
    """Return how our means agree with the paper's numbers (order: Kendall's test); None below three norms."""
    from scipy.stats import kendalltau, pearsonr, spearmanr

    if len(ours) < 3:
        return None
    varies = len({*ours}) > 1 and len({*papers}) > 1
    return Agreement(
        len(ours),
        *orders_upheld(ours, papers),
        p_upheld=float(kendalltau(ours, papers, alternative="greater").pvalue) if varies else 1.0,
        spearman=float(spearmanr(ours, papers).statistic) if varies else None,
        pearson=float(pearsonr(ours, papers).statistic) if varies else None,
        variation=fmean(map(variation, zip(ours, papers, strict=True))),
    )


def orders_upheld(ours: Sequence[float], papers: Sequence[float]) -> tuple[int, int]:
    """Return how many pairs of norms ours order as the paper does, and how many the paper orders."""
    pairs = [
        (o2 - o1, p2 - p1) for (o1, p1), (o2, p2) in combinations(zip(ours, papers, strict=True), 2)
    ]
    return sum(o * p > 0 for o, p in pairs), sum(p != 0 for _, p in pairs)


def variation(numbers: Sequence[float]) -> float:
    """Return the unbiased coefficient of variation CV* of a few numbers in percent (Belz et al. 2022).

    CV* = (1 + 1 / (4 n)) s* / |mean| x 100, with s* = s / c4(n) the unbiased standard deviation.
    """
    count = len(numbers)
    c4 = math.sqrt(2 / (count - 1)) * math.gamma(count / 2) / math.gamma((count - 1) / 2)
    return (1 + 1 / (4 * count)) * stdev(numbers) / c4 / abs(fmean(numbers)) * 100


def agreements(runs: str | None = None) -> list[Agreement]:
    """Return the agreement of each column of the paper with runs at its scale, then of all together."""
    results = []
    for confirmed in (True, False):
        columns = [
            c for task in published_tasks() if (c := _column(task, runs, confirmed=confirmed))
        ]
        results += [*columns, *([_together(columns)] if len(columns) > 1 else [])]
    return results


def _column(task: str, runs: str | None, *, confirmed: bool) -> Agreement | None:
    scores = {}
    for norm, by_seed in evidence(task, "paper", runs=runs).variance.scores.items():
        number = published(task, norm)
        if number is not None and number.value is not None and (number.confirmed or not confirmed):
            scores[norm] = by_seed
    ours = [fmean(by_seed.values()) for by_seed in scores.values()]
    column = agreement(ours, [published_score(task, norm) for norm in scores])
    return column and column._replace(task=task, confirmed=confirmed, own_upheld=own_upheld(scores))


def own_upheld(scores: Scores) -> float | None:
    """Return the share of norm orders under one seed that the mean of the other seeds upholds, or None."""
    seeds = set.intersection(*({*by_seed} for by_seed in scores.values()))
    upheld = ordered = 0
    for seed in seeds if len(seeds) > 1 else ():
        scores_of_seed = [by_seed[seed] for by_seed in scores.values()]
        means = [fmean(by_seed[other] for other in seeds - {seed}) for by_seed in scores.values()]
        counts = orders_upheld(means, scores_of_seed)
        upheld, ordered = upheld + counts[0], ordered + counts[1]
    return upheld / ordered if ordered else None


def _together(columns: Sequence[Agreement]) -> Agreement:
    """Return all columns together: sums of norms and orders, means of the other measures over columns."""
    measures: dict[str, Any] = {}
    for name in ("norms", "upheld", "ordered", "spearman", "pearson", "variation", "own_upheld"):
        values = [value for column in columns if (value := getattr(column, name)) is not None]
        combined = sum if name in ("norms", "upheld", "ordered") else fmean
        measures[name] = combined(values) if values else None
    # No p: the orders within a column depend on each other.
    return columns[0]._replace(task="", p_upheld=None, **measures)
