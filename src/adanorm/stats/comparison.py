"""One comparison of two norms: effect, intervals, and the answer that every page prints."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal, NamedTuple, TypeAlias

from adanorm.stats.sequential import Levels, Numbers
from adanorm.stats.variance import Spread, spread_of

Answer = Literal["better", "worse", "equivalent", "open"]
Sign = Literal["ahead", "behind", "not told apart"]
Size = Literal["within the margin", "not shown within the margin"]
Hypothesis = Literal["better", "worse", "not inferior", "inferior", "not superior"]
SeedScores: TypeAlias = (
    Mapping[int, float] | Numbers | Sequence[float]
)  # by seed, or one list in their order
SMALLEST_P = 1e-300  # floor of p: a smaller one could be taken for 0


class Interval(NamedTuple):
    """The bounds of a confidence interval."""

    low: float
    high: float

    def text(self, digits: int) -> str:
        """Return both bounds with their signs, such as `+0.64 to +1.36`."""
        return f"{self.low + 0.0:+.{digits}f} to {self.high + 0.0:+.{digits}f}"


def student_interval(mean: float, error: float, df: float, level: float = 0.05) -> Interval:
    """Return Student's t interval of a mean whose standard error has `df` degrees of freedom."""
    from scipy.special import stdtrit

    reach = -float(stdtrit(df, level / 2)) * error
    return Interval(mean - reach, mean + reach)


class PaperGap(NamedTuple):
    """The difference of two norms in the paper.

    Rounded digits may have moved it by up to `rounding`.
    """

    value: float
    rounding: float
    confirmed: bool


@dataclass(frozen=True)
class Comparison:
    """The gap between two norms in the metric's unit, with the noise of seeds and of test examples.

    `gap` is the mean over `seeds` shared seeds, positive if the first norm is better; `sd` is the
    deviation of one seed's gap, with `df` degrees of freedom. `example_error` is the standard error
    that the choice of `examples` adds, 0 if unknown. It has no degrees of freedom, so more noise
    never narrows an interval. `family_p`, if set, decides the sign instead of p. With
    `beyond_margin`, a lead must exceed the margin.
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
    family_p: float | None = None
    beyond_margin: bool = False

    @property
    def seed_error(self) -> float:
        """The standard error of the gap on this test set."""
        return self.sd / math.sqrt(self.seeds)

    @property
    def error(self) -> float:
        """The standard error of the gap from seeds and examples together."""
        return math.hypot(self.seed_error, self.example_error)

    @property
    def interval(self) -> Interval:
        """The gap's interval: without 0 if p, uncorrected, is below `level` (95 % at one look)."""
        return student_interval(
            self.gap,
            self.error,
            self.df,
            self.levels.difference,
        )

    @property
    def margin_interval(self) -> Interval:
        """The interval that decides the size: equivalent inside the margin (90 % at one look)."""
        return student_interval(
            self.gap,
            self.error,
            self.df,
            self.levels.equivalence,
        )

    @property
    def digits(self) -> int:
        """The decimals of a gap: two, or more to show two significant digits of the margin."""
        return max(2, 1 - math.floor(math.log10(self.margin))) if self.margin else 2

    @property
    def text(self) -> str:
        """The gap with the interval that decides its answer, such as `+0.67 (95 %: -3.82 to +5.15)`.

        A p that is corrected decides in place of the interval, and stands behind it.
        """
        level, interval = "95 %", self.interval
        if self.answer == "equivalent":
            level, interval = "90 %", self.margin_interval
        inner = f"{level}: {interval.text(self.digits)}"
        if self.family_p is not None and self.answer != "equivalent":
            inner += f" uncorrected, corrected p {self.family_p:.3f}"
        return f"{self.gap + 0.0:+.{self.digits}f} ({inner})"

    @property
    def why(self) -> str:
        """What decides the answer: its interval (both, if *open*), and the corrected p."""
        p = "" if self.family_p is None else f", corrected p {self.family_p:.3f}"
        sign = f"interval {self.interval.text(self.digits)}{p}"
        size, margin = self.margin_interval.text(self.digits), f"for the margin of {self.margin:g}"
        if self.answer != "open":
            return f"interval {size} {margin}" if self.answer == "equivalent" else sign
        is_one = self.levels.difference == self.levels.equivalence
        return f"{sign}; the margin is {self.margin:g}" if is_one else f"{sign}; {margin}, {size}"

    @property
    def sign(self) -> Sign:
        """Whether the first norm is ahead of the second or behind it."""
        p = self.p if self.family_p is None else self.family_p
        if p >= self.level or (self.beyond_margin and abs(self.gap) <= self.margin):
            return "not told apart"
        return "ahead" if self.gap > 0 else "behind"

    @property
    def size(self) -> Size:
        """Whether the difference is too small to matter; `margin_interval` decides it."""
        low, high = self.margin_interval
        is_within = -self.margin < low and high < self.margin
        return "within the margin" if is_within else "not shown within the margin"

    @property
    def papers_gap(self) -> Literal["excluded", "not excluded", "not comparable"]:
        """Whether the paper's gap could be the true gap on this test set."""
        if self.paper_p is None:
            return "not comparable"
        return "excluded" if self.paper_p < self.level else "not excluded"

    @property
    def answer(self) -> Answer:
        """Size and sign in one word.

        The size goes first: a real difference may be too small to matter.
        """
        words: dict[Sign, Answer] = {"ahead": "better", "behind": "worse", "not told apart": "open"}
        return "equivalent" if self.size == "within the margin" else words[self.sign]

    @property
    def p(self) -> float:
        """The two-sided p of the hypothesis that there is no difference."""
        return self._corrected(2 * self._tail(abs(self.gap)), self.levels.difference)

    def p_of(self, hypothesis: Hypothesis) -> float:
        """Return the p of the test for a hypothesis on the first norm: if small, it is true.

        For *better* and *worse* it is two-sided, and 1 if the norms are equivalent. The others
        concern the margin and are one-sided: each side has half of the nominal level of
        equivalence.
        """
        gap, margin = self.gap, self.margin
        distances = {
            "not inferior": gap + margin,
            "inferior": -gap - margin,
            "not superior": margin - gap,
        }
        if hypothesis in distances:
            return self._corrected(self._tail(distances[hypothesis]), self.levels.equivalence / 2)
        tail = self._tail(gap if hypothesis == "better" else -gap)
        return (
            1.0
            if self.answer == "equivalent"
            else self._corrected(2 * tail, self.levels.difference)
        )

    def _tail(self, distance: float, error: float | None = None) -> float:
        """Return the probability of a distance or more by chance: the upper tail of Student's t."""
        from scipy.special import stdtr  # importing scipy.stats takes longer than all else here

        return float(stdtr(self.df, -distance / (self.error if error is None else error)))

    def _corrected(self, p: float, nominal: float) -> float:
        """Return p rescaled from the look's nominal level: the look rejects below `level`."""
        return min(1.0, max(SMALLEST_P, p * self.level / nominal))

    @property
    def paper_p(self) -> float | None:
        """The p of the hypothesis that the paper's gap is the true one on this test set.

        None without one.
        """
        if self.paper is None:
            return None
        distance = max(0.0, abs(self.gap - self.paper.value) - self.paper.rounding)
        # Only seeds add noise: the paper's gap was measured on the same test examples.
        return self._corrected(2 * self._tail(distance, self.seed_error), self.levels.difference)


def compare(
    first: SeedScores,
    second: SeedScores,
    margin: float,
    *,
    level: float = 0.05,
    levels: Levels | None = None,
) -> Comparison | None:
    """Return the comparison of the first norm with the second, over the seeds that both have.

    Larger scores are better, so negate a loss. A difference below `margin` does not matter. None
    with fewer than two shared seeds or equal gaps: they show no noise. Raises ValueError for a
    margin or level out of range, for lists of different lengths and for scores that are not finite.
    """
    if not 0 < margin < math.inf:
        raise ValueError(
            f"margin={margin:g}: must be above 0, the smallest difference that matters"
        )
    if not 0 < level < 1:
        raise ValueError(f"level={level:g}: must be above 0 and below 1, such as 0.05")
    if (
        not isinstance(first, Mapping)
        and not isinstance(second, Mapping)
        and len(first) != len(second)
    ):
        raise ValueError(
            f"{len(first)} and {len(second)} scores: name seeds, as in {{1: 75.9, 2: 76.4}}"
        )
    ours, others = map(by_seed, (first, second))
    gaps = {seed: float(ours[seed] - others[seed]) for seed in ours if seed in others}
    for seed, gap in gaps.items():
        if not math.isfinite(gap):
            raise ValueError(
                f"seed {seed}: scores {ours[seed]:g} and {others[seed]:g}: must be finite"
            )
    return compare_gaps(
        [*gaps.values()],
        margin,
        level=level,
        levels=levels,
    )


def by_seed(scores: SeedScores) -> Mapping[int, float]:
    """Return scores by seed; a list without seeds is numbered from 0."""
    return scores if isinstance(scores, Mapping) else dict(enumerate(map(float, scores)))


def compare_gaps(
    gaps: Sequence[float],
    margin: float = 0.0,
    *,
    level: float = 0.05,
    levels: Levels | None = None,
    spread: Spread | None = None,
    overlap: float = 0.0,
    **facts: Any,
) -> Comparison | None:
    """Return the comparison of gaps, one per seed or fold; None if their spread is unknown or 0.

    Without `levels` the plan is fixed: one look. For n folds with `overlap` test examples per
    training example, the mean has 1 + n * overlap times the variance (Nadeau & Bengio 2003, section
    3).
    """
    spread = spread or spread_of(gaps)
    if spread is None:
        return None
    sd, df = spread
    sd *= math.sqrt(1 + len(gaps) * overlap)
    levels = levels or Levels(level, 2 * level)  # a fixed plan has one look
    return Comparison(
        fmean(gaps),
        sd,
        df,
        len(gaps),
        margin,
        levels,
        level,
        **facts,
    )
