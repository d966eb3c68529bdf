"""Seeds and test examples crossed: how much of a difference's error each of the two makes."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.floating[Any]]
FEWEST_SEEDS = 5  # of a split of one norm's variance


class Components(NamedTuple):
    """Variances of a score over seeds, over examples, and of what is neither's alone.

    score = mean + seed + example + rest: of the mean over S seeds and E examples they make
    seed / S + example / E + rest / (S E). `seed` is None for one seed.
    """

    seed: float | None
    example: float
    rest: float
    seeds: int
    examples: int

    @property
    def example_error(self) -> float:
        """The standard error that the choice of examples adds."""
        return math.sqrt(max(0.0, self.example) / self.examples)


def components(values: Values) -> Components:
    """Return the variance components of (seeds, examples) by the method of moments, unbiased.

    Two-way random effects without replication (Searle, Casella & McCulloch 1992, section 4.7), which may be
    negative: seed = (MS_seeds - MS_rest) / E, example = (MS_examples - MS_rest) / S. Of one seed, `example`
    has the rest in it.
    """
    seeds, examples = values.shape
    over_examples, over_seeds, mean = values.mean(1), values.mean(0), values.mean()
    if seeds == 1:
        return Components(None, float(values.var(ddof=1)), 0.0, 1, examples)
    of_seeds = examples * float(over_examples.var(ddof=1))
    of_examples = seeds * float(over_seeds.var(ddof=1))
    left = values - over_examples[:, None] - over_seeds[None, :] + mean
    rest = float(np.square(left).sum()) / ((seeds - 1) * (examples - 1))
    return Components((of_seeds - rest) / examples, (of_examples - rest) / seeds, rest, seeds, examples)


def seed_split(values: Values) -> tuple[float, float] | None:
    """Return the deviations of a score over seeds: on this test set, on its distribution (Jordan 2024).

    Of `values` (seeds, examples). The latter variance is E / (E - 1) (V - sum_e v_e / E²), with V that of the
    score and v_e that of example e over seeds: the component `seed`. None for fewer than FEWEST_SEEDS seeds.
    """
    if len(values) < FEWEST_SEEDS or (seed := components(values).seed) is None:
        return None
    return float(values.mean(1).std(ddof=1)), math.sqrt(max(0.0, seed))
