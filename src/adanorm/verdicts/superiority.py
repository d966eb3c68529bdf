"""How often a run of one norm scores better than a run of another."""

from __future__ import annotations

from collections.abc import Sequence


def probability_better(ours: Sequence[float], theirs: Sequence[float], *, higher_is_better: bool) -> float:
    """Return the share of pairs of runs in which ours scores better, a tie counting half.

    It estimates P(A > B) of Bouthillier et al. 2021 (arXiv 2103.03098), section 3, without pairing of seeds.
    """
    sign = 1 if higher_is_better else -1
    wins = [1.0 if sign * (a - b) > 0 else 0.5 if a == b else 0.0 for a in ours for b in theirs]
    return sum(wins) / len(wins)
