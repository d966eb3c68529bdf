"""How often one norm's run is the better, against SciPy's statistic of Mann and Whitney."""

from __future__ import annotations

import pytest
from scipy.stats import mannwhitneyu

from adanorm.verdicts.superiority import probability_better

OURS, THEIRS = [75.0, 76.5, 77.0, 76.0], [76.0, 74.0, 76.5]


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_it_is_mann_and_whitneys_statistic_over_the_number_of_pairs(higher_is_better: bool) -> None:
    sign = 1 if higher_is_better else -1
    statistic = mannwhitneyu([sign * a for a in OURS], [sign * b for b in THEIRS]).statistic
    expected = statistic / (len(OURS) * len(THEIRS))
    assert probability_better(OURS, THEIRS, higher_is_better=higher_is_better) == pytest.approx(expected)
