"""What choosing does: the best of many epochs beside the level, the best of several settings by luck."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

import numpy as np


def level(curve: Sequence[float]) -> float | None:
    """Return the mean of the last third of a run's evaluations, at least one; None of no evaluation."""
    return fmean(curve[-max(1, len(curve) // 3) :]) if curve else None


def expected_best(count: int) -> float:
    """Return the mean of the largest of `count` independent standard normal numbers."""
    from scipy.integrate import quad
    from scipy.stats import norm

    if count < 2:
        return 0.0
    found, _ = quad(lambda x: x * count * norm.pdf(x) * norm.cdf(x) ** (count - 1), -np.inf, np.inf)
    return float(found)


def luck_of_choice(
    valid: Sequence[Sequence[float]], test: Sequence[Sequence[float]], *, tried: int, seeds: int
) -> tuple[float, float] | None:
    """Return what the best of `tried` settings wins in test score if none matters.

    First where the choice is by the mean validation score over seeds, then where by the test score.
    `valid` and `test` are scores of runs in groups that differ in their seed alone, larger is
    better: they give the standard deviations s over seeds and the covariance c within groups. The
    best of n wins m(n) c / s_valid / sqrt(seeds), or m(n) s_test / sqrt(seeds), with m(n) the mean
    of the largest of n standard normal numbers. None without two seeds of a setting.
    """
    groups = [(np.asarray(v), np.asarray(t)) for v, t in zip(valid, test, strict=True) if len(v) > 1]
    df = sum(len(v) - 1 for v, _ in groups)
    if not df:
        return None
    centered = [(v - v.mean(), t - t.mean()) for v, t in groups]
    of_valid, of_test, of_both = (
        sum(float(pair[a] @ pair[b]) for pair in centered) / df for a, b in ((0, 0), (1, 1), (0, 1))
    )
    best = expected_best(tried) / math.sqrt(seeds)
    by_valid = best * of_both / math.sqrt(of_valid) if of_valid > 0 else 0.0
    return by_valid, best * math.sqrt(of_test)
