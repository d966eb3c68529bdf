"""One comparison of two norms: its effect, its intervals, and the one answer that every page prints."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any, Literal, NamedTuple

from adanorm.verdicts.sequential import Levels, Numbers
from adanorm.verdicts.variance import NO_SPREAD, Spread

Answer = Literal["better", "worse", "equivalent", "open"]
Sign = Literal["ahead", "behind", "not told apart"]
Size = Literal["within the margin", "not shown within the margin"]
PapersGap = Literal["excluded", "not excluded", "not comparable"]
Hypothesis = Literal["better", "worse", "not inferior", "inferior", "not superior"]
SMALLEST_P = 1e-300  # a smaller one could be taken for 0


class Interval(NamedTuple):
    """The bounds of a confidence interval."""

    low: float
    high: float

    def text(self, digits: int) -> str:
        """Return the bounds, signed."""
        return f"{self.low + 0.0:+.{digits}f} to {self.high + 0.0:+.{digits}f}"


def student_interval(mean: float, error: float, df: float, level: float = 0.05) -> Interval:
    """Return Student's t interval of a mean whose standard error has `df` degrees of freedom."""
    from scipy.special import stdtrit

    reach = -float(stdtrit(df, level / 2)) * error
    return Interval(mean - reach, mean + reach)


class PaperGap(NamedTuple):
    """The paper's own difference; `rounding`: how far printed digits may have moved it."""

    value: float
    rounding: float
    confirmed: bool


@dataclass(frozen=True)
class Comparison:
    """By how much one norm beats another, in the metric's unit, with the noise of seeds and of test examples.

    `gap` is the mean over `seeds` shared seeds, positive where the first-named norm is better; `sd`, with
    `df` degrees of freedom, that of a seed's gap. `example_error`, 0 if not on record, is what the choice of
    `examples` adds; it has no degrees of freedom, so that more noise never narrows an interval.
    `family_p` decides the sign in place of p; with `beyond_margin` only more than the margin is a lead.
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
        """The standard error of the gap, seeds and examples together."""
        return math.hypot(self.seed_error, self.example_error)

    @property
    def interval(self) -> Interval:
        """The interval of the gap that has zero in it unless the norms differ (95 % in a fixed plan)."""
        return student_interval(self.gap, self.error, self.df, self.levels.difference)

    @property
    def margin_interval(self) -> Interval:
        """The interval that lies inside the margin where the norms are equivalent (90 % in a fixed plan)."""
        return student_interval(self.gap, self.error, self.df, self.levels.equivalence)

    @property
    def digits(self) -> int:
        """How many decimals show a gap beside the margin: two, or those that the margin's two digits take."""
        return max(2, 1 - math.floor(math.log10(self.margin))) if self.margin else 2

    @property
    def why(self) -> str:
        """What decides the answer: its interval, in a family the corrected p; of *open*, both intervals."""
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
        """Whether the difference is smaller than matters; `margin_interval` decides it."""
        low, high = self.margin_interval
        is_within = -self.margin < low and high < self.margin
        return "within the margin" if is_within else "not shown within the margin"

    @property
    def papers_gap(self) -> PapersGap:
        """Whether the paper's gap can be the true one on this test set."""
        if self.paper_p is None:
            return "not comparable"
        return "excluded" if self.paper_p < self.level else "not excluded"

    @property
    def answer(self) -> Answer:
        """Size and sign in one word. The size goes first: what is not nil may still not matter."""
        words: dict[Sign, Answer] = {"ahead": "better", "behind": "worse", "not told apart": "open"}
        return "equivalent" if self.size == "within the margin" else words[self.sign]

    @property
    def p(self) -> float:
        """The p of no difference, two-sided."""
        return self._corrected(2 * self._tail(abs(self.gap)), self.levels.difference)

    def p_of(self, hypothesis: Hypothesis) -> float:
        """Return the p against a hypothesis on the first norm.

        Two-sided of *better* and *worse*, and 1 where the norms are equivalent. One-sided of the others,
        which are of the margin: half of the nominal level of equivalence belongs to a side.
        """
        gap, margin = self.gap, self.margin
        ahead = {"not inferior": gap + margin, "inferior": -gap - margin, "not superior": margin - gap}
        if hypothesis in ahead:
            return self._corrected(self._tail(ahead[hypothesis]), self.levels.equivalence / 2)
        tail = self._tail(gap if hypothesis == "better" else -gap)
        return 1.0 if self.answer == "equivalent" else self._corrected(2 * tail, self.levels.difference)

    def _tail(self, distance: float, error: float | None = None) -> float:
        """Return how probable a distance or more is by chance: Student's t of it."""
        from scipy.special import stdtr  # not scipy.stats, whose import takes longer than all else here

        return float(stdtr(self.df, -distance / (self.error if error is None else error)))

    def _corrected(self, p: float, nominal: float) -> float:
        """Return p in such a unit that `level` is where a look rejects."""
        return min(1.0, max(SMALLEST_P, p * self.level / nominal))

    @property
    def paper_p(self) -> float | None:
        """The p of the paper's gap being the true one on this test set; None where the paper has none."""
        if self.paper is None:
            return None
        distance = max(0.0, abs(self.gap - self.paper.value) - self.paper.rounding)
        # Of the seeds alone: the paper's gap is of the same test examples.
        return self._corrected(2 * self._tail(distance, self.seed_error), self.levels.difference)


def compare(
    first: Mapping[int, float] | Numbers | Sequence[float],
    second: Mapping[int, float] | Numbers | Sequence[float],
    margin: float,
    *,
    level: float = 0.05,
    levels: Levels | None = None,
) -> Comparison | None:
    """Return by how much the first norm beats the second, over the seeds that both have scores of.

    Larger scores are better, so negate a loss; a difference below `margin` does not matter. None where fewer
    than two gaps, or equal ones, tell no noise. Raises ValueError for a margin, a level, lengths or scores
    that cannot be.
    """
    if not 0 < margin < math.inf:
        raise ValueError(f"margin={margin:g}: must be above 0, the smallest difference that matters")
    if not 0 < level < 1:
        raise ValueError(f"level={level:g}: must be above 0 and below 1, such as 0.05")
    if not isinstance(first, Mapping) and not isinstance(second, Mapping) and len(first) != len(second):
        raise ValueError(f"{len(first)} and {len(second)} scores: name seeds, as in {{1: 75.9, 2: 76.4}}")
    ours, others = map(by_seed, (first, second))
    gaps = {seed: float(ours[seed] - others[seed]) for seed in ours if seed in others}
    for seed, gap in gaps.items():
        if not math.isfinite(gap):
            raise ValueError(f"seed {seed}: scores {ours[seed]:g} and {others[seed]:g}: must be finite")
    return compare_gaps([*gaps.values()], margin, level=level, levels=levels)


def by_seed(scores: Mapping[int, float] | Numbers | Sequence[float]) -> Mapping[int, float]:
    """Return scores by seed; those without seeds are numbered."""
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
    """Return the comparison that gaps make, one per seed; None where nothing tells their spread.

    Without `levels` it is a fixed plan. Gaps of n folds, with `overlap` tested examples per example trained
    on, have 1 + n * overlap times the variance of their mean (Nadeau & Bengio 2003, section 3).
    """
    own = Spread(stdev(gaps), len(gaps) - 1) if spread is None and len(gaps) > 1 else spread
    if own is None or own.sd <= NO_SPREAD:
        return None
    sd, df = own
    sd *= math.sqrt(1 + len(gaps) * overlap)
    levels = levels or Levels(level, 2 * level)
    return Comparison(fmean(gaps), sd, df, len(gaps), margin, levels, level, **facts)
