"""Variance components of seeds and examples, against drawn truths and another's formula."""

from __future__ import annotations

import math
from statistics import variance

import numpy as np
import pytest

from adanorm.verdicts.crossed import Components, components, seed_split
from tests.verdicts import known


def drawn(random: np.random.Generator, *shape: int, sds: tuple[float, float, float]) -> np.ndarray:
    """Scores (seeds, examples) with these deviations of seeds, examples and the rest."""
    seeds, examples = shape
    shapes = ((seeds, 1), (1, examples), (seeds, examples))
    return sum((random.normal(0, sd, of) for sd, of in zip(sds, shapes, strict=True)), start=np.ones(shape))


def test_the_two_errors_make_the_error_of_the_mean() -> None:
    random = np.random.default_rng(1)
    tables = [drawn(random, 5, 40, sds=(0.4, 1.5, 2.0)) for _ in range(1500)]
    true = np.std([table.mean() for table in tables])
    squares = []
    for table in tables:
        found = components(table)
        squares.append(known(found.seed) / 5 + found.rest / 200 + found.example_error**2)
    assert math.sqrt(np.mean(squares)) == pytest.approx(true, rel=0.06)
    assert Components(1.0, -3.0, 1.0, 5, 100).example_error == 0


def test_one_seed_says_nothing_of_seeds() -> None:
    values = drawn(np.random.default_rng(2), 1, 100, sds=(1.0, 1.0, 1.0))
    found = components(values)
    assert found.seed is None
    assert found[1:] == pytest.approx((variance(values[0].tolist()), 0, 1, 100))
    assert found.example_error > 0


def test_components_are_those_of_the_analysis_of_variance() -> None:
    found = components(np.array([[1.0, 2.0, 6.0], [2.0, 5.0, 8.0]]))
    # Means 3 and 5 of seeds, 1.5, 3.5 and 7 of examples, 4 of all; what is left are halves: +-.5, -+.5, 0.
    ms_seeds, ms_examples, ms_rest = 3 * 2.0, 2 * 7.75, (4 * 0.25) / 2
    assert found == ((ms_seeds - ms_rest) / 3, (ms_examples - ms_rest) / 2, ms_rest, 2, 3)


def test_the_split_is_jordans_formula() -> None:
    """E / (E - 1) (V - sum_e v_e / E^2), of whether runs get an example right."""
    random = np.random.default_rng(3)
    easy = random.random(200)
    right = 100.0 * (random.random((12, 200)) < easy)
    variance, of_examples = right.mean(1).var(ddof=1), right.var(0, ddof=1).sum()
    expected = 200 / 199 * (variance - of_examples / 200**2)
    found = known(seed_split(right))
    assert found[0] == pytest.approx(math.sqrt(variance))
    assert found[1] == pytest.approx(math.sqrt(max(0, expected)))
    assert seed_split(right[:5]) is not None
    assert seed_split(right[:4]) is None, "five seeds are the fewest"


def test_runs_that_are_equally_good_differ_on_a_test_set_and_not_on_its_distribution() -> None:
    random = np.random.default_rng(4)
    right = 100.0 * (random.random((200, 500)) < 0.8)
    found = known(seed_split(right))
    assert found[0] == pytest.approx(100 * math.sqrt(0.8 * 0.2 / 500), rel=0.15)
    assert found[1] < 0.5 * found[0]
