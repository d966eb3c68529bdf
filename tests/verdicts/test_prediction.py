"""The paper's number in the distribution of one more run, against simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from adanorm.verdicts.prediction import column_shift, error_rates, place
from adanorm.verdicts.variance import Spread


@pytest.mark.parametrize(
    ("number", "verdict"),
    [(75.0, "consistent"), (77.0, "inconclusive"), (79.0, "differs"), (71.0, "differs")],
)
def test_a_number_is_consistent_inconclusive_or_differs(number: float, verdict: str) -> None:
    found = place(number, rounding=0.005, mean=75.0, count=3, spread=Spread(1.0, 12))
    assert found.verdict == verdict
    distance = (number - 75.0) / math.sqrt(1 + 1 / 3)
    assert found.percentile == pytest.approx(100 * stats.t.cdf(distance, 12))
    assert found.p == pytest.approx(2 * stats.t.sf(max(0, abs(distance) - 0.005 / math.sqrt(1 + 1 / 3)), 12))


def test_a_number_that_was_rounded_is_nearer() -> None:
    spread = Spread(0.02, 12)
    exact = place(1.07, rounding=0.0, mean=1.115, count=3, spread=spread)
    assert place(1.07, rounding=0.005, mean=1.115, count=3, spread=spread).p > exact.p


@pytest.mark.parametrize("shift", [0.0, 1.5, 3.0])
def test_the_printed_error_rates_are_those_of_drawn_cells(shift: float) -> None:
    random = np.random.default_rng(0)
    count, df, draws = 3, 14, 3000
    means = random.normal(0, 1 / math.sqrt(count), draws)
    sds = np.sqrt(random.chisquare(df, draws) / df)
    numbers = random.normal(shift, 1, draws)
    verdicts = [
        place(x, rounding=0, mean=m, count=count, spread=Spread(s, df)).verdict
        for x, m, s in zip(numbers.tolist(), means.tolist(), sds.tolist(), strict=True)
    ]
    expected = error_rates(count, df, shift)
    assert sum(expected.values()) == pytest.approx(1)
    for verdict, rate in expected.items():
        assert verdicts.count(verdict) / draws == pytest.approx(rate, abs=0.03)


def columns(ours: np.ndarray) -> dict[str, dict[int, float]]:
    return {f"norm{k}": dict(enumerate(row.tolist())) for k, row in enumerate(ours)}


def test_a_column_that_lies_low_is_told_and_a_shared_seed_makes_it_less_sure() -> None:
    # Seeds that move all norms by one point, and noise that moves each norm by half a point.
    ours = 75 + np.array([-1.0, 0.0, 1.0]) + 0.5 * np.random.default_rng(2).standard_normal((7, 3))
    low = column_shift(columns(ours), {f"norm{k}": 76.2 for k in range(7)})
    assert low is not None
    assert low.mean == pytest.approx(ours.mean() - 76.2)
    assert low.p_shared is not None
    assert low.p_apart < 0.05 < low.p_shared
    assert column_shift(columns(ours), {}) is None
    assert column_shift(columns(ours[:, :1]), {"norm0": 76.0}) is None, "one seed"


def test_of_seeds_that_few_norms_have_the_shared_ones_move_the_column() -> None:
    scores = {"a": {1: 75.0, 2: 76.0, 3: 71.0}, "b": {1: 74.0, 2: 74.5}}
    found = column_shift(scores, {"a": 75.0, "b": 76.0, "c": 70.0})
    assert found is not None
    assert (found.mean, found.norms) == ((-1 - 1.75) / 2, 2)
    error = math.sqrt(14.125 / 3) * math.sqrt(1 + 1 / 3 + 1 + 1 / 2) / 2
    assert found.p_apart == pytest.approx(2 * stats.t.cdf(found.mean / error, 3))
    # Columns of 74.5 and 75.25 beside one of 75.5: Student's t of one degree of freedom is Cauchy's.
    gap, error = 75.5 - 74.875, 0.75 / math.sqrt(2) * math.sqrt(1 + 1 / 2)
    assert found.p_shared == pytest.approx(1 - 2 / math.pi * math.atan(gap / error))
    apart = column_shift({"a": {1: 75.0, 2: 76.0}, "b": {2: 74.0, 3: 74.5}}, {"a": 75.0, "b": 76.0})
    assert apart is not None
    assert apart.p_shared is None, "one seed of both"


@pytest.mark.parametrize("of_seeds", [0.0, 1.0])
def test_a_column_test_errs_as_often_as_it_says(of_seeds: float) -> None:
    random = np.random.default_rng(1)
    wrong, draws = 0, 1500
    for _ in range(draws):
        ours = random.normal(0, 1, (7, 3)) + random.normal(0, of_seeds, 3)
        paper = random.normal(0, 1, 7) + random.normal(0, of_seeds)
        found = column_shift(columns(ours), {f"norm{k}": number for k, number in enumerate(paper.tolist())})
        assert found is not None
        p = found.p_shared if of_seeds else found.p_apart
        assert p is not None
        wrong += p < 0.05
    assert 0.038 < wrong / draws < 0.062
