"""How much the choice of test examples adds to the error of one pair's gap."""

import math
from typing import NamedTuple

import numpy as np

from adanorm.stats.sequential import Numbers

FLOOR = 0.75  # one-sided confidence of the bound that the noise is never taken below
ENOUGH_SEEDS = 10  # with fewer, a pair's noise is shrunk towards that of other pairs


class ExampleNoise(NamedTuple):
    """The variance that the choice of examples adds to a mean gap, and its standard error.

    `variance` is unbiased and may be negative; `seeds` have told it.
    """

    variance: float
    error: float
    seeds: int

    @property
    def floor(self) -> float:
        """The upper bound of the one-sided FLOOR interval, at least 0."""
        from scipy.special import ndtri

        return max(0.0, self.variance + float(ndtri(FLOOR)) * self.error)


def example_noise(gaps: Numbers) -> ExampleNoise:
    """Return the noise of examples in the mean of `gaps` (seeds, examples), from these alone.

    The component `example` of the two-way analysis of variance, over the number of examples
    (Searle, Casella & McCulloch 1992, section 4.7). It is the mean over examples of (mean gap of
    the example - mean gap)² - (variance over seeds) / seeds, so its standard error is that of a
    mean, whatever the distribution of gaps. Raises ValueError for fewer than two seeds or examples,
    and for a number that is not finite.
    """
    return _noise(gaps.mean(axis=0), _of_seeds(gaps), len(gaps))


def example_noise_of_groups(first: Numbers, second: Numbers) -> ExampleNoise:
    """Return the noise of examples in the gap of two groups (seeds, examples) without common seeds.

    As `example_noise`; the variances over seeds of the two groups add up.
    """
    gaps = first.mean(axis=0) - second.mean(axis=0)
    return _noise(gaps, _of_seeds(first) + _of_seeds(second), min(len(first), len(second)))


def _of_seeds(values: Numbers) -> Numbers:
    """Return the variance of each example's mean over seeds, without what all examples share."""
    seeds, examples = values.shape
    if seeds < 2 or examples < 2:
        raise ValueError(f"{seeds} seeds, {examples} examples: noise needs two of each")
    if not np.isfinite(values).all():
        raise ValueError("scores of examples must be finite")
    over_seeds = values.mean(axis=0)
    rest = values - values.mean(axis=1, keepdims=True) - over_seeds + values.mean()
    return np.asarray(np.square(rest).sum(axis=0) / (seeds - 1) / seeds)


def _noise(gaps: Numbers, of_seeds: Numbers, seeds: int) -> ExampleNoise:
    examples = len(gaps)
    parts = (np.square(gaps - gaps.mean()) - of_seeds) / (examples - 1)
    error = math.sqrt(examples) * float(parts.std(ddof=1))
    return ExampleNoise(float(parts.sum()) / examples, error / examples, seeds)


def example_error(own: ExampleNoise, others: float = 0.0) -> float:
    """Return the standard error to count for the examples of a pair.

    With fewer than ENOUGH_SEEDS seeds, the pair's own variance is shrunk towards `others`, the
    median variance of other pairs, in proportion to the seeds that are lacking. It is never less
    than the pair's own floor.
    """
    share = min(1.0, own.seeds / ENOUGH_SEEDS)
    variance = share * own.variance + (1 - share) * others
    return math.sqrt(max(variance, own.floor))
