"""Paired comparisons of quantities that share no variance with others: Student's test on their own gaps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple, TypeVar

from adanorm.verdicts.comparison import Comparison
from adanorm.verdicts.conjunction import corrected
from adanorm.verdicts.preregistration import preregistration
from adanorm.verdicts.sequential import fixed_levels
from adanorm.verdicts.variance import TaskVariance

K = TypeVar("K")


class Paired(NamedTuple):
    """By how much the second of two paired sets of numbers is larger; `p` is None where nothing tells."""

    mean: float
    p: float | None
    pairs: int


def paired(first: Sequence[float], second: Sequence[float]) -> Paired:
    """Return the difference of the second numbers from the first, entry i of both being one seed's.

    `p` is of Student's paired t-test, None with one pair and where all gaps are alike.
    """
    gaps = [b - a for a, b in zip(first, second, strict=True)]
    read = of_gaps(gaps)
    return Paired(fmean(gaps), None if read is None else read.p, len(gaps))


def of_gaps(gaps: Sequence[float], margin: float = 0.0, *, overlap: float = 0.0) -> Comparison | None:
    """Return the comparison that gaps make, a number a seed, in a fixed plan by their own variance.

    `overlap`: the gaps are of folds, with so many tested examples an example trained on; n of them have
    the variance of a mean of n independent ones times 1 + n * overlap (Nadeau & Bengio 2003, section 3).
    None with one gap, with none, and where all are alike.
    """
    spread = TaskVariance({"": dict.fromkeys(range(len(gaps)), 0.0), "gap": dict(enumerate(gaps))}, 0)
    found = spread.of_difference("", "gap")
    if found is None:
        return None
    level = preregistration().level
    sd = found.sd * math.sqrt(1 + len(gaps) * overlap)
    return Comparison(fmean(gaps), sd, found.df, len(gaps), margin, fixed_levels(level), level)


def corrected_by(ps: Mapping[K, float | None]) -> dict[K, float]:
    """Return the p-values there are, by their keys, corrected for their number."""
    known = {key: p for key, p in ps.items() if p is not None}
    return dict(zip(known, corrected(list(known.values())), strict=True))


def significantly_best(variance: TaskVariance) -> str | None:
    """Return the norm that is better than every other of a task; None where none is.

    Larger scores are better. By the moderated test against each of the others, corrected for their
    number.
    """
    scores = variance.scores
    if len(scores) < 2 or not all(scores.values()):
        return None
    best = max(scores, key=lambda norm: fmean(scores[norm].values()))
    level = preregistration().level
    ps = []
    for other in scores.keys() - {best}:
        gaps, spread = variance.gaps(other, best), variance.of_difference(other, best)
        if spread is None:
            return None
        read = Comparison(fmean(gaps), spread.sd, spread.df, len(gaps), 0.0, fixed_levels(level), level)
        ps.append(read.p_better)
    return best if all(p < level for p in corrected(ps)) else None
