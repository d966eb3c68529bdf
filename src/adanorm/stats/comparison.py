"""One comparison of two norms: effect, intervals, and the answer that every page prints."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from statistics import fmean
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from adanorm.stats.designs import Method, Moments, moments_of
from adanorm.stats.example_noise import example_error, example_noise, example_noise_of_groups
from adanorm.stats.sequential import (
    Kind,
    Levels,
    LevelsOfLook,
    Looks,
    Numbers,
    seeds_looked_at,
    seeds_needed,
)
from adanorm.stats.variance import ROUNDING, Spread, spread_of, student_tail

Answer = Literal["better", "worse", "equivalent", "open"]
Sign = Literal["ahead", "behind", "not told apart"]
Size = Literal["within the margin", "not shown within the margin"]
Hypothesis = Literal["better", "worse", "not inferior", "inferior", "not superior"]
Score: TypeAlias = float | Numbers  # a number, or one number for each test example
SeedScores: TypeAlias = Mapping[int, Any] | Numbers | Sequence[Any]  # by seed, or a list
SMALLEST_P = 1e-300  # floor of p: a smaller one could be taken for 0
# Squares of scores are finite, and those of differences between scores are not rounded to 0.
SMALLEST, LARGEST = 1e-130, 1e150
NO_SEED = 2**62  # numbers from here on stand for scores without a seed
ASSUMPTIONS = (
    "Seeds are blocks: runs that share a seed share all that the seed decides.",
    "Runs are independent, and their differences about normal.",
    "All runs are scored on one test set; without scores per example its choice adds no noise.",
    "The sign is corrected for the number of pairs; the size and its interval are not.",
    "Printed intervals are not corrected either: one may exclude 0 where the sign does not.",
)


class Interval(NamedTuple):
    """The bounds of a confidence interval."""

    low: float
    high: float

    def text(self, digits: int) -> str:
        """Return both bounds with their signs, such as `+0.64 to +1.36`.

        Up to three more decimals show that an interval excludes zero, where rounding would hide it.
        """
        excludes_zero = self.low > 0 or self.high < 0
        nearest = min(abs(self.low), abs(self.high))
        most = digits + 3
        while excludes_zero and digits < most and not round(nearest, digits):
            digits += 1
        return f"{self.low:+z.{digits}f} to {self.high:+z.{digits}f}"


def student_interval(mean: float, error: float, df: float, significance: float = 0.05) -> Interval:
    """Return Student's t interval of a mean whose standard error has `df` degrees of freedom."""
    from scipy.special import stdtrit

    reach = -float(stdtrit(df, significance / 2)) * error
    return Interval(mean - reach, mean + reach)


def digits_for(margin: float) -> int:
    """Return the decimals to show: two, or more for two significant digits of the margin."""
    return max(2, 1 - math.floor(math.log10(margin)))


@dataclass(frozen=True)
class Group:
    """The scores of a norm, (seeds,) or (seeds, examples), and their seeds, (seeds,)."""

    seeds: NDArray[Any]
    scores: Numbers

    @cached_property
    def means(self) -> Numbers:
        """The score of each seed, (seeds,): the mean over examples, if there are any."""
        return self.scores.mean(axis=1) if self.scores.ndim == 2 else self.scores

    @cached_property
    def largest(self) -> float:
        """The largest absolute score."""
        return float(np.abs(self.means).max())

    @property
    def by_seed(self) -> dict[int, float]:
        """The score of each seed, by seed."""
        return dict(zip(self.seeds.tolist(), self.means.tolist(), strict=True))

    def take(self, rows: NDArray[Any] | slice) -> "Group":
        """Return the scores in some rows."""
        return Group(self.seeds[rows], self.scores[rows])


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
    deviation of one seed's gap, with `df` degrees of freedom. Without such seeds it is the
    difference of two means; `seeds` is then the smaller group's number of scores, and `moments`
    has what the standard error sd / sqrt(seeds) is made of. `example_error` is the standard error
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
    design: Method = "paired"
    moments: Moments | None = None

    @property
    def method(self) -> str:
        """How the scores go together, and how many they are."""
        if self.moments is None:
            return f"{self.seeds} seeds, {self.design}"
        first, second = self.moments.sizes
        if self.design == "independent":
            return f"{first} and {second} scores, independent"
        return f"{self.moments.shared} shared seeds of {first} and {second}, partly paired"

    @property
    def reverse(self) -> "Comparison":
        """The comparison of the second norm with the first."""
        moments = self.moments and self.moments.reverse
        return replace(self, gap=0.0 - self.gap, moments=moments)

    def after(self, seeds: int, df: float, levels: Levels) -> "Comparison":
        """Return the comparison with today's means and deviations after so many seeds.

        Groups that do not pair have degrees of freedom of their own, not `df`.
        """
        sd = self.sd
        moments = self.moments
        if moments:
            moments = moments.grown(seeds - self.seeds)
            sd = moments.error * math.sqrt(seeds)
            df = moments.df
        return replace(self, sd=sd, df=df, seeds=seeds, moments=moments, levels=levels)

    def seeds_to_show(self, effect: float, kind: Kind, looks: Looks | None = None) -> int | None:
        """Return how many seeds of each norm show a difference of `effect`, or equivalence within it.

        With probability 0.8 (`Looks.power`), by the comparison's own noise: a difference if it is
        the true one, equivalence if there is none. None if 2,000 are too few.
        """
        sd = self.sd
        df_per_seed = 1.0
        if self.moments:
            sd = self.moments.gap_sd
            variances = self.moments.variances
            if not self.moments.shared:
                shares = [variance / sum(variances) for variance in variances]
                df_per_seed = 1 / (shares[0] ** 2 + shares[1] ** 2)
        noise = {"sd": sd, "example_error": self.example_error}
        if looks:
            return seeds_looked_at(looks, effect, kind=kind, **noise)
        once = Looks((2,), 1.0, self.level)
        return seeds_needed(once, effect, kind=kind, df_per_seed=df_per_seed, **noise)

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
        return student_interval(self.gap, self.error, self.df, self.levels.difference)

    @property
    def margin_interval(self) -> Interval:
        """The interval that decides the size: equivalent inside the margin (90 % at one look)."""
        return student_interval(self.gap, self.error, self.df, self.levels.equivalence)

    @property
    def digits(self) -> int:
        """The decimals of a gap: two, or more to show two significant digits of the margin."""
        return digits_for(self.margin) if self.margin else 2

    @property
    def text(self) -> str:
        """The gap with the interval that decides its answer, such as `+0.67 (95 %: -3.82 to +5.15)`.

        A p that is corrected decides in place of the interval, and stands behind it.
        """
        level = "95 %"
        interval = self.interval
        if self.answer == "equivalent":
            level = "90 %"
            interval = self.margin_interval
        inner = f"{level}: {interval.text(self.digits)}"
        if self.family_p is not None and self.answer != "equivalent":
            inner += f" uncorrected, corrected p {self.family_p:.3f}"
        return f"{self.gap + 0.0:+.{self.digits}f} ({inner})"

    @property
    def why(self) -> str:
        """What decides the answer: its interval (both, if *open*), and the corrected p."""
        p = "" if self.family_p is None else f", corrected p {self.family_p:.3f}"
        sign = f"interval {self.interval.text(self.digits)}{p}"
        size = self.margin_interval.text(self.digits)
        margin = f"for the margin of {self.margin:g}"
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
        tail = student_tail(abs(self.gap), self.error, self.df)
        return self._corrected(2 * tail, self.levels.difference)

    def p_of(self, hypothesis: Hypothesis) -> float:
        """Return the p of the test for a hypothesis on the first norm: if small, it is true.

        For *better* and *worse* it is two-sided, and 1 if the norms are equivalent. The others
        concern the margin and are one-sided: each side has half of the nominal level of
        equivalence.
        """
        gap = self.gap
        margin = self.margin
        distances = {
            "not inferior": gap + margin,
            "inferior": -gap - margin,
            "not superior": margin - gap,
        }
        if hypothesis in distances:
            tail = student_tail(distances[hypothesis], self.error, self.df)
            return self._corrected(tail, self.levels.equivalence / 2)
        if self.answer == "equivalent":
            return 1.0
        distance = gap if hypothesis == "better" else -gap
        tail = student_tail(distance, self.error, self.df)
        return self._corrected(2 * tail, self.levels.difference)

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
        tail = student_tail(distance, self.seed_error, self.df)
        return self._corrected(2 * tail, self.levels.difference)


def compare(
    first: SeedScores,
    second: SeedScores,
    margin: float,
    *,
    paired: bool | None = None,
    level: float = 0.05,
    levels: Levels | None = None,
) -> Comparison | None:
    """Return the comparison of the first norm's scores with the second's.

    Dictionaries pair by seed; scores of seeds that only one norm has count too (Derrick et al.
    2017, T_new2). Two lists are independent groups (Welch 1947). `paired=True` pairs lists by
    position, and of dictionaries reads the shared seeds alone; `paired=False` takes seeds for mere
    labels. A score may be an array of one number per test example: the choice of examples then
    adds its noise. Larger scores are better, so negate a loss. A difference below `margin` does
    not matter. None with fewer than two scores of a norm, or if they show no noise. Raises
    ValueError for a margin or level out of range, the levels of another look, lists of different
    lengths that pair, seeds that have no order, and scores that are not finite or tiny but
    not 0. ASSUMPTIONS has what is taken for granted.
    """
    ours, theirs = groups_of([first, second], paired)
    only_shared = paired is True
    return compare_groups(ours, theirs, margin, only_shared=only_shared, level=level, levels=levels)


def compare_groups(
    ours: Group,
    theirs: Group,
    margin: float,
    *,
    only_shared: bool = False,
    level: float = 0.05,
    levels: Levels | None = None,
) -> Comparison | None:
    """Return the comparison of two groups, as `compare` does; `only_shared` leaves out other seeds.

    Raises the errors of `compare`.
    """
    if not 0 < margin < math.inf:
        raise ValueError(
            f"margin={margin:g}: must be above 0, the smallest difference that matters"
        )
    if not 0 < level < 1:
        raise ValueError(f"level={level:g}: must be above 0 and below 1, such as 0.05")
    ours, theirs, shared = paired_first(ours, theirs)
    if only_shared:
        ours = ours.take(slice(shared))
        theirs = theirs.take(slice(shared))
    elif shared < 2:
        shared = 0
    scores = (ours.scores, theirs.scores)
    means = (ours.means, theirs.means)
    if scores[0].shape[1:] != scores[1].shape[1:]:
        raise ValueError("scores: both norms need the same test examples, or none")
    fewest = min(map(len, means))
    if isinstance(levels, LevelsOfLook) and fewest != levels.seeds:
        raise ValueError(f"{fewest} seeds: these are the levels of the look after {levels.seeds}")
    if fewest < 2:
        return None
    is_paired = shared == len(means[0]) == len(means[1])
    largest = max(ours.largest, theirs.largest)
    facts: dict[str, Any] = {"level": level}
    if scores[0].ndim == 2:
        if is_paired:
            noise = example_noise(scores[0] - scores[1])
        else:
            noise = example_noise_of_groups(*scores)
        facts |= {"example_error": example_error(noise), "examples": scores[0].shape[1]}
    if is_paired:
        gaps = means[0] - means[1]
        return compare_gaps(gaps, margin, levels=levels, largest=largest, **facts)
    moments = moments_of(*means, shared)
    if moments.error <= ROUNDING * largest:
        return None
    return Comparison(
        gap=float(means[0].mean() - means[1].mean()),
        sd=moments.error * math.sqrt(fewest),
        df=moments.df,
        seeds=fewest,
        margin=margin,
        levels=levels or Levels(level, 2 * level),
        design="partly paired" if shared else "independent",
        moments=moments,
        **facts,
    )


def groups_of(scores: Sequence[SeedScores], paired: bool | None) -> list[Group]:
    """Return the group of each norm; scores that do not pair get seeds from NO_SEED on.

    `paired` is that of `compare`. Raises ValueError if groups that pair have different lengths or
    only some have seeds, for seeds that have no order, and for scores that are no finite numbers.
    """
    lists = [entry for entry in scores if not isinstance(entry, Mapping)]
    if paired and lists:
        lengths = [len(entry) for entry in scores]
        if len(lists) < len(scores):
            raise ValueError("paired=True: name the seeds of all scores or of none")
        if len({*lengths}) > 1:
            sizes = " and ".join(map(str, lengths))
            raise ValueError(f"{sizes} scores: name seeds, as in {{1: 75.9, 2: 76.4}}")
    unused = count(NO_SEED)
    groups = []
    for entry in scores:
        by_seed: Any = entry
        if paired is False or not isinstance(entry, Mapping):
            values = entry.values() if isinstance(entry, Mapping) else entry
            numbers = count() if paired else unused
            by_seed = {next(numbers): value for value in values}
        order = _in_order(by_seed)
        seeds = np.array(order)
        if seeds.dtype.kind not in "iU":
            seeds = np.array(order, dtype=object)  # as floats, large numbers would be equal
        group = Group(seeds, _array([by_seed[seed] for seed in order]))
        _check_finite(group)
        groups.append(group)
    return groups


def _in_order(seeds: Collection[Any]) -> list[Any]:
    """Return the seeds in order; raises ValueError if they are numbers and names."""
    try:
        return sorted(seeds)
    except TypeError:
        raise ValueError(f"seeds {[*seeds]}: must be all numbers or all names") from None


def _array(values: Sequence[Any]) -> Numbers:
    """Return scores as numbers, (seeds,) or (seeds, examples)."""
    try:
        scores = np.array(values, dtype=float)
    except (TypeError, ValueError):
        scores = None
    if scores is None or scores.ndim > 2:
        raise ValueError("scores: must be numbers, or equally many for each seed")
    return scores


def _check_finite(group: Group) -> None:
    """Raise ValueError, with the seed, unless all scores are 0 or from SMALLEST to LARGEST."""
    sizes = np.abs(group.means)
    is_wrong = ~((sizes == 0) | (sizes >= SMALLEST) & (sizes < LARGEST))
    if is_wrong.any():
        wrong = int(is_wrong.argmax())
        seed = group.seeds[wrong]
        score = group.means[wrong]
        is_named = isinstance(seed, str) or seed < NO_SEED
        name = f"seed {seed}" if is_named else "a list"
        text = (
            f"scores such as {score:g} must be finite, and 0 or {SMALLEST:g} to {LARGEST:g} in size"
        )
        raise ValueError(f"{name}: {text}")


def paired_first(ours: Group, theirs: Group) -> tuple[Group, Group, int]:
    """Return both groups with their shared seeds first, in one order, and how many these are."""
    if np.array_equal(ours.seeds, theirs.seeds):
        return ours, theirs, len(ours.seeds)
    is_shared = np.isin(ours.seeds, theirs.seeds)
    shared = int(is_shared.sum())
    if shared:
        theirs_alone = ~np.isin(theirs.seeds, ours.seeds)
        ours = ours.take(np.argsort(~is_shared, kind="stable"))
        theirs = theirs.take(np.argsort(theirs_alone, kind="stable"))
    return ours, theirs, shared


def compare_gaps(
    gaps: Sequence[float] | Numbers,
    margin: float = 0.0,
    *,
    level: float = 0.05,
    levels: Levels | None = None,
    spread: Spread | None = None,
    overlap: float = 0.0,
    largest: float = 0.0,
    **facts: Any,
) -> Comparison | None:
    """Return the comparison of gaps, one per seed or fold; None if their spread is unknown or 0.

    Without `levels` the plan is fixed: one look. For n folds with `overlap` test examples per
    training example, the mean has 1 + n * overlap times the variance (Nadeau & Bengio 2003, section
    3). `largest` is the largest absolute score.
    """
    values = np.asarray(gaps, dtype=float)
    spread = spread or spread_of(values, largest=largest)
    if spread is None:
        return None
    sd, df = spread
    sd *= math.sqrt(1 + len(gaps) * overlap)
    levels = levels or Levels(level, 2 * level)  # a fixed plan has one look
    return Comparison(fmean(values.tolist()), sd, df, len(gaps), margin, levels, level, **facts)
