"""Variance components of seeds and examples, against the analysis of variance and another's formula."""

from __future__ import annotations

import math

import numpy as np
import pytest

from adanorm.verdicts.crossed import Components, components, seed_split
from tests.verdicts import known


def test_components_are_those_of_the_analysis_of_variance() -> None:
    crossed = components(np.array([[1.0, 2.0, 6.0], [2.0, 5.0, 8.0]]))
    # Means 3 and 5 of seeds, 1.5, 3.5 and 7 of examples, 4 of all; what is left are halves: +-.5, -+.5, 0.
    ms_seeds, ms_examples, ms_rest = 3 * 2.0, 2 * 7.75, (4 * 0.25) / 2
    assert crossed.example_error == pytest.approx(math.sqrt((ms_examples - ms_rest) / 2 / 3))
    assert crossed == ((ms_seeds - ms_rest) / 3, (ms_examples - ms_rest) / 2, ms_rest, 2, 3)
    assert Components(1.0, -3.0, 1.0, 5, 100).example_error == 0
    assert components(np.array([[1.0, 2.0, 6.0]])) == (None, 7.0, 0.0, 1, 3), "one seed says nothing of seeds"


def test_the_split_is_jordans_formula() -> None:
    """E / (E - 1) (V - sum_e v_e / E^2), of whether runs get an example right."""
    random = np.random.default_rng(3)
    right = 100.0 * (random.random((12, 200)) < random.random(200))
    variance, of_examples = right.mean(1).var(ddof=1), right.var(0, ddof=1).sum()
    expected = 200 / 199 * (variance - of_examples / 200**2)
    assert known(seed_split(right)) == pytest.approx((math.sqrt(variance), math.sqrt(max(0, expected))))
    assert seed_split(right[:5]) is not None
    assert seed_split(right[:4]) is None, "five seeds are the fewest"
