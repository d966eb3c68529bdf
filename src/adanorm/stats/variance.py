"""The spread of scores over seeds and examples, and where a number lies among further runs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from adanorm.stats.sequential import Numbers

Scores: TypeAlias = Mapping[str, Mapping[int, float]]  # norm -> seed -> score
FEWEST_SEEDS = 5  # for a split of one norm's variance
FEWEST_PAIRS = 3  # of norms, to estimate how much their variances differ
ROUNDING = 2.0**-46  # equal gaps differ by up to this share of their scores in floating point
Standing = Literal["consistent", "differs", "inconclusive"]
DIFFERS = 0.05  # a smaller p: outside the central 95 %
CONSISTENT = 0.20  # this p or more: inside the central 80 %


class Spread(NamedTuple):
    """A standard deviation and the degrees of freedom that it is known with."""

    sd: float
    df: float


@dataclass(frozen=True)
class TaskVariance:
    """The variance of a task's scores over seeds, which are blocks: score = norm + seed + noise.

    `resolution` is the step of a score, such as 0.2 for the accuracy on 500 images, or 0; a score's
    variance is at least resolution² / 12. `prior_df_at_most` bounds the degrees of freedom that
    other norms add.
    """

    scores: Scores
    prior_df_at_most: float
    resolution: float = 0.0

    def shared(self, *norms: str) -> list[int]:
        """Return the seeds, sorted, with which all the norms have a score."""
        seeds = [{*self.scores.get(norm, {})} for norm in norms]
        return sorted(set.intersection(*seeds))

    def gaps(self, first: str, second: str) -> list[float]:
        """Return by how much the second norm scores above the first, one number per shared seed."""
        seeds = self.shared(first, second)
        return [self.scores[second][seed] - self.scores[first][seed] for seed in seeds]

    def of_difference(self, first: str, second: str) -> Spread | None:
        """Return the spread of one seed's difference between two norms.

        None if it cannot be estimated. With n gaps g,
        s² = 2 (sum (g - mean g)² / 2 + r d / f) / (n - 1 + d) on n - 1 + d degrees of freedom
        (Smyth 2004): r is the residual sum of squares of all norms less this pair's term, f its
        degrees of freedom, and d = min(prior_df, f). s² is at least resolution² / 6.
        """
        gaps = self.gaps(first, second)
        if not gaps:
            return None
        pair_squares = float(np.var(gaps)) * len(gaps) / 2
        pair_df = len(gaps) - 1
        squares, df = self.residual
        rest = max(0.0, squares - pair_squares)
        rest_df = df - pair_df
        borrowed_df = min(self.prior_df, rest_df) if rest_df else 0.0
        if pair_df + borrowed_df <= 0:
            return None
        if borrowed_df:
            pair_squares += rest * borrowed_df / rest_df
        variance = 2 * pair_squares / (pair_df + borrowed_df)  # twice that of a score
        sd = math.sqrt(max(variance, self.resolution**2 / 6))
        return Spread(sd, pair_df + borrowed_df) if sd > ROUNDING * self.largest else None

    @cached_property
    def largest(self) -> float:
        """The largest absolute score."""
        scores = chain.from_iterable(by_seed.values() for by_seed in self.scores.values())
        return max(map(abs, scores), default=0.0)

    @cached_property
    def prior_df(self) -> float:
        """The degrees of freedom d that the other norms add (Smyth 2004, section 6.2).

        trigamma(d / 2) equals the variance of the logarithms of all pairs' variances, less the part
        that is due to chance. So d is small if some norms are far noisier than others.
        """
        from scipy.optimize import brentq
        from scipy.special import digamma, polygamma

        pairs = [gaps for two in combinations(self.scores, 2) if len(gaps := self.gaps(*two)) > 1]
        sizes = np.array([*map(len, pairs)])
        variances = np.empty(len(pairs))
        for size in {*sizes}:  # all pairs of one size at once, which is faster
            alike = [gaps for gaps in pairs if len(gaps) == size]
            variances[sizes == size] = np.var(alike, axis=1, ddof=1)
        most = self.prior_df_at_most
        fewest = 1e-3
        if len(pairs) < FEWEST_PAIRS or not (variances.any() or self.resolution):
            return most
        halves = (sizes - 1) / 2
        floored = np.maximum(variances, max(self.resolution**2 / 6, 1e-4 * variances.mean()))
        logs = np.log(floored) - digamma(halves) + np.log(halves)
        excess = float(logs.var(ddof=1) - polygamma(1, halves).mean())

        def difference(df: float) -> float:
            return float(polygamma(1, df / 2)) - excess

        if difference(most) >= 0:  # variances differ no more than `most` degrees of freedom imply
            return most
        if difference(fewest) <= 0:
            return fewest
        return float(brentq(difference, fewest, most))

    @cached_property
    def within(self) -> Spread | None:
        """The spread of one more run: that of scores over seeds, pooled over norms.

        None if unknown.
        """
        groups = [list(scores.values()) for scores in self.scores.values() if scores]
        squares = sum(float(np.var(group)) * len(group) for group in groups)
        df = sum(map(len, groups)) - len(groups)
        return Spread(math.sqrt(max(squares / df, self.resolution**2 / 12)), df) if df else None

    @cached_property
    def residual(self) -> tuple[float, int]:
        """The residual sum of squares of score = norm + seed, and its degrees of freedom."""
        runs = [(norm, seed) for norm, scores in self.scores.items() for seed in scores]
        if not runs:
            return 0.0, 0
        effects = [*dict.fromkeys(chain.from_iterable(runs))]  # of norms and of seeds
        design = np.zeros((len(runs), len(effects)))
        for row, run in enumerate(runs):
            for effect in run:
                design[row, effects.index(effect)] = 1.0
        values = np.array([self.scores[norm][seed] for norm, seed in runs])
        values -= values.mean()
        estimates, _, rank, _ = np.linalg.lstsq(
            design,
            values,
            rcond=None,
        )
        return float(np.square(values - design @ estimates).sum()), len(runs) - int(rank)


def spread_of(
    gaps: Sequence[float] | Numbers, resolution: float = 0.0, *, largest: float = 0.0
) -> Spread | None:
    """Return the spread of gaps by themselves; None for one gap, or if they do not vary.

    `resolution` is the step of the scores: the variance is at least resolution² / 6. `largest` is
    the largest absolute score, which rounding errors are a share of.
    """
    if len(gaps) < 2:
        return None
    values = np.asarray(gaps, dtype=float)
    observed_sd = float(values.std(ddof=1))
    sd = max(observed_sd, resolution / math.sqrt(6))
    largest_gap = float(np.abs(values).max())
    least = ROUNDING * max(largest, largest_gap)
    return Spread(sd, len(gaps) - 1) if sd > least else None


def student_tail(distance: float, error: float, df: float) -> float:
    """Return the probability of a distance or more by chance: the upper tail of Student's t."""
    from scipy.special import stdtr  # importing scipy.stats takes longer than all else here

    return float(stdtr(df, -distance / error))


class Prediction(NamedTuple):
    """Where a number lies among further runs: percentile in %, two-sided p, verdict."""

    percentile: float
    p: float
    verdict: Standing


def prediction(
    number: float, *, rounding: float, mean: float, count: int, spread: Spread
) -> Prediction:
    """Return where a number lies among possible further runs, given the mean of `count` runs.

    One more run scores mean + t s sqrt(1 + 1/n), with Student's t on the spread's degrees of
    freedom. The number may be rounded by up to `rounding`. DIFFERS and CONSISTENT are the verdicts'
    limits of p.
    """
    scale = spread.sd * math.sqrt(1 + 1 / count)
    distance = max(0.0, abs(number - mean) - rounding)
    p = 2 * student_tail(distance, scale, spread.df)
    verdict: Standing = "inconclusive"
    if p < DIFFERS:
        verdict = "differs"
    elif p >= CONSISTENT:
        verdict = "consistent"
    percentile = 100 * student_tail(mean - number, scale, spread.df)
    return Prediction(percentile, p, verdict)


class Components(NamedTuple):
    """The variances of three parts of a score: seed, example and the rest.

    score = mean + seed + example + rest. The mean over S seeds and E examples has the variance
    seed / S + example / E + rest / (S E). `seed` is None for one seed.
    """

    seed: float | None
    example: float
    rest: float
    seeds: int
    examples: int

    @property
    def example_error(self) -> float:
        """The standard error that the choice of examples adds; 0 for a negative variance."""
        return math.sqrt(max(0.0, self.example) / self.examples)


def components(values: Numbers) -> Components:
    """Return the unbiased variance components of `values` (seeds, examples), by moments.

    Two-way random effects without replication (Searle, Casella & McCulloch 1992, section 4.7): seed
    = (MS_seeds - MS_rest) / E, example = (MS_examples - MS_rest) / S. Either may be negative. For
    one seed, `example` includes the rest.
    """
    seeds, examples = values.shape
    over_examples = values.mean(1)
    over_seeds = values.mean(0)
    mean = values.mean()
    if seeds == 1:
        return Components(
            None,
            float(values.var(ddof=1)),
            0.0,
            1,
            examples,
        )
    ms_seeds = examples * float(over_examples.var(ddof=1))
    ms_examples = seeds * float(over_seeds.var(ddof=1))
    residuals = values - over_examples[:, None] - over_seeds[None, :] + mean
    rest = float(np.square(residuals).sum()) / ((seeds - 1) * (examples - 1))
    return Components(
        (ms_seeds - rest) / examples, (ms_examples - rest) / seeds, rest, seeds, examples
    )


def seed_split(values: Numbers) -> tuple[float, float] | None:
    """Return deviations over seeds on this test set and on its distribution (Jordan 2024).

    `values` is (seeds, examples). The second variance is E / (E - 1) (V - sum_e v_e / E²), the
    component `seed`, with V the score's variance and v_e that of example e over seeds. None below
    FEWEST_SEEDS seeds.
    """
    if len(values) < FEWEST_SEEDS or (seed := components(values).seed) is None:
        return None
    return float(values.mean(1).std(ddof=1)), math.sqrt(max(0.0, seed))
