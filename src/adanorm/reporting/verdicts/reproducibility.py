"""How reproducible the paper's tables are, in measures of the field (QRA++, Belz 2025)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np


class Agreement(NamedTuple):
    """How a column of ours agrees with the paper's, over the same norms.

    `upheld` of `ordered` pairs of norms that the paper tells apart are ordered alike; `spearman` and
    `pearson` correlate the two columns (None where one of them does not vary); `variation` is the mean
    over norms of the coefficient of variation of the two numbers, in percent.
    """

    norms: int
    upheld: int
    ordered: int
    p_upheld: float
    spearman: float | None
    pearson: float | None
    variation: float


def agreement(ours: Sequence[float], papers: Sequence[float]) -> Agreement | None:
    """Return how our means agree with the paper's numbers, entry by entry; None for fewer than three.

    `p_upheld` is Kendall's test, two-sided: of as many upheld orders if ours had none of the paper's.
    """
    from scipy.stats import kendalltau, pearsonr, spearmanr

    if len(ours) < 3:
        return None
    pairs = [(o2 - o1, p2 - p1) for (o1, p1), (o2, p2) in combinations(zip(ours, papers, strict=True), 2)]
    ordered = [(o, p) for o, p in pairs if p != 0]
    upheld = sum(o * p > 0 for o, p in ordered)
    varies = np.ptp(ours) > 0 and np.ptp(papers) > 0
    return Agreement(
        norms=len(ours),
        upheld=upheld,
        ordered=len(ordered),
        p_upheld=float(kendalltau(ours, papers).pvalue) if varies else 1.0,
        spearman=float(spearmanr(ours, papers).statistic) if varies else None,
        pearson=float(pearsonr(ours, papers).statistic) if varies else None,
        variation=float(np.mean([variation(pair) for pair in zip(ours, papers, strict=True)])),
    )


def variation(numbers: Sequence[float]) -> float:
    """Return the unbiased coefficient of variation CV* of a few numbers in percent (Belz et al. 2022).

    CV* = (1 + 1 / (4 n)) s* / |mean| x 100, with s* = s / c4(n) the unbiased standard deviation.
    """
    count = len(numbers)
    c4 = math.sqrt(2 / (count - 1)) * math.gamma(count / 2) / math.gamma((count - 1) / 2)
    spread = float(np.std(numbers, ddof=1)) / c4
    return (1 + 1 / (4 * count)) * spread / abs(float(np.mean(numbers))) * 100
