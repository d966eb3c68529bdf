"""How reproducible the paper's tables are, in measures of the field (QRA++, Belz 2025)."""

import math
from collections.abc import Sequence
from itertools import combinations
from statistics import fmean, stdev
from typing import Any, NamedTuple

from adanorm.records.published import published, published_tasks
from adanorm.verdicts.cell import evidence
from adanorm.verdicts.pair import published_score
from adanorm.verdicts.variance import Scores


class Agreement(NamedTuple):
    """How the paper's numbers of a task are upheld by ours."""

    norms: int
    upheld: int  # pairs of norms that are ordered alike
    ordered: int  # pairs of norms that the paper tells apart
    p_upheld: float | None
    spearman: float | None  # None where a column does not vary
    pearson: float | None
    variation: float  # the mean of `variation(ours, the paper's)` over norms
    own_upheld: float | None = None  # from two seeds on
    task: str = ""  # all together
    confirmed: bool = True  # of numbers alone that a public source confirms


def agreement(ours: Sequence[float], papers: Sequence[float]) -> Agreement | None:
    """Return how our means agree with the paper's numbers, orders by Kendall's test; None for under three."""
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
    """Return how many pairs of norms ours order as the paper, of how many that it orders."""
    pairs = [(o2 - o1, p2 - p1) for (o1, p1), (o2, p2) in combinations(zip(ours, papers, strict=True), 2)]
    return sum(o * p > 0 for o, p in pairs), sum(p != 0 for _, p in pairs)


def variation(numbers: Sequence[float]) -> float:
    """Return the unbiased coefficient of variation CV* of a few numbers in percent (Belz et al. 2022).

    CV* = (1 + 1 / (4 n)) s* / |mean| x 100, with s* = s / c4(n) the unbiased standard deviation.
    """
    count = len(numbers)
    c4 = math.sqrt(2 / (count - 1)) * math.gamma(count / 2) / math.gamma((count - 1) / 2)
    return (1 + 1 / (4 * count)) * stdev(numbers) / c4 / abs(fmean(numbers)) * 100


def agreements(runs: str | None = None) -> list[Agreement]:
    """Return the agreement of each of the paper's columns with runs at its scale, then of all together."""
    agreed = []
    for confirmed in (True, False):
        columns = [_column(task, runs, confirmed=confirmed) for task in published_tasks()]
        known = [column for column in columns if column is not None]
        agreed += [*known, *([_together(known)] if len(known) > 1 else [])]
    return agreed


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
    """Return which share of the orders of norms under one seed the mean of the other seeds upholds."""
    seeds = set.intersection(*({*by_seed} for by_seed in scores.values()))
    upheld = ordered = 0
    for seed in seeds if len(seeds) > 1 else ():
        one = [by_seed[seed] for by_seed in scores.values()]
        others = [fmean(by_seed[other] for other in seeds - {seed}) for by_seed in scores.values()]
        counts = orders_upheld(others, one)
        upheld, ordered = upheld + counts[0], ordered + counts[1]
    return upheld / ordered if ordered else None


def _together(columns: Sequence[Agreement]) -> Agreement:
    """Return the orders of all columns, and the mean of their other measures, each column counting once."""
    measures: dict[str, Any] = {}
    for name in ("norms", "upheld", "ordered", "spearman", "pearson", "variation", "own_upheld"):
        values = [value for column in columns if (value := getattr(column, name)) is not None]
        combined = sum if name in ("norms", "upheld", "ordered") else fmean
        measures[name] = combined(values) if values else None
    # The orders of one column depend on each other: no p.
    return columns[0]._replace(task="", p_upheld=None, **measures)
