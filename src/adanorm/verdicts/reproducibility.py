"""How reproducible the paper's tables are, in measures of the field (QRA++, Belz 2025)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from statistics import fmean
from typing import NamedTuple

import numpy as np

from adanorm.config.titles import task_metric
from adanorm.records.published import published, published_tasks
from adanorm.verdicts.cell import evidence
from adanorm.verdicts.variance import Scores


class Agreement(NamedTuple):
    """How the paper's numbers of a task are upheld by ours, over the same norms.

    `upheld` of `ordered` pairs of norms that the paper tells apart are ordered alike; `spearman` and
    `pearson` correlate the two columns (None where one of them does not vary); `variation` is the mean
    over norms of the coefficient of variation of the two numbers, in percent. `own_upheld` is the share of
    the orders of one of our seeds that the mean of the others upholds; None under two seeds of all norms.
    The task "" stands for all together; `confirmed`: of numbers alone that a public source confirms.
    """

    norms: int
    upheld: int
    ordered: int
    p_upheld: float | None
    spearman: float | None
    pearson: float | None
    variation: float
    own_upheld: float | None = None
    task: str = ""
    confirmed: bool = True


def agreement(ours: Sequence[float], papers: Sequence[float]) -> Agreement | None:
    """Return how our means agree with the paper's numbers, entry by entry; None for fewer than three.

    `p_upheld` is Kendall's test, two-sided: of as many upheld orders if ours had none of the paper's.
    """
    from scipy.stats import kendalltau, pearsonr, spearmanr

    if len(ours) < 3:
        return None
    upheld, ordered = orders_upheld(ours, papers)
    varies = np.ptp(ours) > 0 and np.ptp(papers) > 0
    return Agreement(
        norms=len(ours),
        upheld=upheld,
        ordered=ordered,
        p_upheld=float(kendalltau(ours, papers).pvalue) if varies else 1.0,
        spearman=float(spearmanr(ours, papers).statistic) if varies else None,
        pearson=float(pearsonr(ours, papers).statistic) if varies else None,
        variation=float(np.mean([variation(pair) for pair in zip(ours, papers, strict=True)])),
    )


def orders_upheld(ours: Sequence[float], papers: Sequence[float]) -> tuple[int, int]:
    """Return how many pairs have the second numbers' order in the first, of how many that have one."""
    pairs = [(o2 - o1, p2 - p1) for (o1, p1), (o2, p2) in combinations(zip(ours, papers, strict=True), 2)]
    ordered = [(o, p) for o, p in pairs if p != 0]
    return sum(o * p > 0 for o, p in ordered), len(ordered)


def variation(numbers: Sequence[float]) -> float:
    """Return the unbiased coefficient of variation CV* of a few numbers in percent (Belz et al. 2022).

    CV* = (1 + 1 / (4 n)) s* / |mean| x 100, with s* = s / c4(n) the unbiased standard deviation.
    """
    count = len(numbers)
    c4 = math.sqrt(2 / (count - 1)) * math.gamma(count / 2) / math.gamma((count - 1) / 2)
    spread = float(np.std(numbers, ddof=1)) / c4
    return (1 + 1 / (4 * count)) * spread / abs(float(np.mean(numbers))) * 100


def agreements(runs: str | None = None) -> list[Agreement]:
    """Return the agreement of each of the paper's columns with runs at its scale, then of all together."""
    agreed = []
    for confirmed in (True, False):
        columns = [
            column for task in published_tasks() if (column := _column(task, runs, confirmed=confirmed))
        ]
        agreed += columns
        if len(columns) > 1:
            agreed.append(_together(columns))
    return agreed


def _column(task: str, runs: str | None, *, confirmed: bool) -> Agreement | None:
    sign = 1 if task_metric(task).higher_is_better else -1
    scores = evidence(task, "paper", runs=runs).variance.scores
    papers = {}
    for norm in scores:
        number = published(task, norm)
        if number is not None and number.value is not None and (number.confirmed or not confirmed):
            papers[norm] = sign * number.value
    ours = {norm: fmean(scores[norm].values()) for norm in papers}
    column = agreement([*ours.values()], [*papers.values()])
    if column is None:
        return None
    own = own_upheld({norm: scores[norm] for norm in papers})
    return column._replace(task=task, confirmed=confirmed, own_upheld=own)


def own_upheld(scores: Scores) -> float | None:
    """Return which share of the orders of norms under one seed the mean of the other seeds upholds."""
    seeds = set.intersection(*({*by_seed} for by_seed in scores.values()))
    if len(seeds) < 2:
        return None
    upheld = ordered = 0
    for seed in seeds:
        one = [by_seed[seed] for by_seed in scores.values()]
        others = [fmean(by_seed[s] for s in seeds - {seed}) for by_seed in scores.values()]
        more_upheld, more_ordered = orders_upheld(others, one)
        upheld, ordered = upheld + more_upheld, ordered + more_ordered
    return upheld / ordered if ordered else None


def _together(columns: Sequence[Agreement]) -> Agreement:
    """Return the orders of all columns, and the mean of their other measures, each column counting once."""

    def mean(values: Sequence[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return fmean(known) if known else None

    return Agreement(
        norms=sum(one.norms for one in columns),
        upheld=sum(one.upheld for one in columns),
        ordered=sum(one.ordered for one in columns),
        p_upheld=None,  # orders of one column depend on each other
        spearman=mean([one.spearman for one in columns]),
        pearson=mean([one.pearson for one in columns]),
        variation=fmean(one.variation for one in columns),
        own_upheld=mean([one.own_upheld for one in columns]),
        confirmed=columns[0].confirmed,
    )
