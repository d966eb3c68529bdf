"""One comparison of two norms on a task: better, worse, equivalent or open, and what would close it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

from adanorm.verdicts.sequential import Levels

Answer = Literal["better", "worse", "equivalent", "open"]
SMALLEST_P = 1e-300  # a smaller one could be taken for 0


class Interval(NamedTuple):
    """The bounds of a confidence interval."""

    low: float
    high: float

    def within(self, margin: float) -> bool:
        """Return whether the interval lies inside ± margin."""
        return -margin < self.low and self.high < margin


class PaperGap(NamedTuple):
    """The paper's own difference; `rounding`: how far printed digits may have moved it."""

    value: float
    rounding: float
    confirmed: bool


@dataclass(frozen=True)
class Comparison:
    """By how much one norm beats another, with the noise of seeds and of test examples.

    `gap` is the mean over `seeds` shared seeds, positive where the first-named norm is better; `sd`
    of a seed's gap, on `df` degrees of freedom. `example_error` is the standard error that the
    choice of `examples` test examples adds, 0 where it is not on record; it adds no degrees of freedom,
    so that more noise never makes an interval narrower. All in the metric's unit.
    """

    gap: float
    sd: float
    df: float
    seeds: int
    margin: float
    levels: Levels
    level: float = 0.05
    example_error: float = 0.0
    examples: int = 0
    paper: PaperGap | None = None

    @property
    def seed_error(self) -> float:
        """The standard error of the gap on this test set."""
        return self.sd / math.sqrt(self.seeds)

    @property
    def error(self) -> float:
        """The standard error of the gap, seeds and examples together."""
        return math.hypot(self.seed_error, self.example_error)

    @property
    def interval(self) -> Interval:
        """The interval of the gap that has zero in it unless the norms differ (95 % in a fixed plan)."""
        return self._interval(self.levels.difference)

    @property
    def margin_interval(self) -> Interval:
        """The interval that lies inside the margin where the norms are equivalent (90 % in a fixed plan)."""
        return self._interval(self.levels.equivalence)

    def _interval(self, level: float) -> Interval:
        from scipy.stats import t

        reach = float(t.isf(level / 2, self.df)) * self.error
        return Interval(self.gap - reach, self.gap + reach)

    @property
    def answer(self) -> Answer:
        """Return what the runs say of the two norms.

        Equivalent goes first: a difference that is not nil and yet smaller than matters.
        """
        if self.margin_interval.within(self.margin):
            return "equivalent"
        low, high = self.interval
        return "better" if low > 0 else "worse" if high < 0 else "open"

    @property
    def p(self) -> float:
        """The p of no difference, two-sided."""
        return self._corrected(2 * self._tail(abs(self.gap)), self.levels.difference)

    @property
    def p_better(self) -> float:
        """The p against *better*: two-sided, and at least the level where the norms are equivalent."""
        below = 2 * self._tail(self.gap)
        return 1.0 if self.answer == "equivalent" else self._corrected(below, self.levels.difference)

    @property
    def p_worse(self) -> float:
        """The p against *worse*, two-sided."""
        below = 2 * self._tail(-self.gap)
        return 1.0 if self.answer == "equivalent" else self._corrected(below, self.levels.difference)

    @property
    def p_not_inferior(self) -> float:
        """The p against *not worse by the margin*, one-sided: non-inferiority."""
        return self._one_sided(self.gap + self.margin)

    @property
    def p_inferior(self) -> float:
        """The p against *worse by more than the margin*, one-sided."""
        return self._one_sided(-self.gap - self.margin)

    @property
    def p_not_superior(self) -> float:
        """The p against *not better by the margin*, one-sided."""
        return self._one_sided(self.margin - self.gap)

    @property
    def p_equivalent(self) -> float:
        """The p against *equivalent*: the larger of two one-sided tests (Schuirmann 1987)."""
        return max(self.p_not_inferior, self.p_not_superior)

    def _one_sided(self, distance: float) -> float:
        # Nominal equivalence levels are two-sided: half of one belongs to a side.
        return self._corrected(self._tail(distance), self.levels.equivalence / 2)

    def _tail(self, distance: float) -> float:
        from scipy.stats import t

        return float(t.sf(distance / self.error, self.df))

    def _corrected(self, p: float, nominal: float) -> float:
        """Return p in such a unit that `level` is where a look rejects."""
        return min(1.0, max(SMALLEST_P, p * self.level / nominal))

    @property
    def paper_p(self) -> float | None:
        """The p of the paper's gap being the true one on this test set; None where the paper has none.

        Of the seeds alone: the paper's gap is of the same test examples.
        """
        from scipy.stats import t

        if self.paper is None:
            return None
        distance = max(0.0, abs(self.gap - self.paper.value) - self.paper.rounding)
        return self._corrected(2 * float(t.sf(distance / self.seed_error, self.df)), self.levels.difference)

    @property
    def paper_excluded(self) -> bool | None:
        """Whether the paper's gap is not the true one; None where the paper has none."""
        return None if self.paper_p is None else self.paper_p < self.level
