"""The level of a run, beside the best of its evaluations."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean


def level(curve: Sequence[float]) -> float | None:
    """Return the mean of the last third of a run's evaluations, at least one; None of no evaluation."""
    return fmean(curve[-max(1, len(curve) // 3) :]) if curve else None
