"""The paper's number in the distribution of one more run, against simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from adanorm.verdicts.variance import Spread, place


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


def test_a_number_of_the_same_distribution_differs_once_in_twenty() -> None:
    random = np.random.default_rng(0)
    count, df, draws = 3, 14, 3000
    means = random.normal(0, 1 / math.sqrt(count), draws)
    sds = np.sqrt(random.chisquare(df, draws) / df)
    numbers = random.normal(0, 1, draws)
    verdicts = [
        place(x, rounding=0, mean=m, count=count, spread=Spread(s, df)).verdict
        for x, m, s in zip(numbers.tolist(), means.tolist(), sds.tolist(), strict=True)
    ]
    for verdict, rate in {"consistent": 0.8, "inconclusive": 0.15, "differs": 0.05}.items():
        assert sum(v == verdict for v in verdicts) / draws == pytest.approx(rate, abs=0.03)
