"""How many digits of a score are shown."""

from __future__ import annotations

import math


def decimals(score: float) -> int:
    """Return how many decimals a score is shown with: two, and below 1 as many as make three digits.

    Scores in percent or bits keep their two; a squared error of 0.0123 is not shown as 0.01.
    """
    size = abs(score)
    return 2 if size >= 1 or size < 1e-9 or not math.isfinite(size) else 2 - math.floor(math.log10(size))
