"""Gaps of two groups of scores, against SciPy."""

import numpy as np
import pytest
from scipy import stats

from adanorm.stats.designs import gap_of

RANDOM = np.random.default_rng(0)
FIRST, SECOND = RANDOM.normal(0.3, 1, 12), RANDOM.normal(0, 3, 12)


def p_of(gap: tuple[float, float, float]) -> float:
    mean, error, df = gap
    return float(2 * stats.t.sf(abs(mean) / error, df))


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_pairs_are_those_of_students_test(scale: float) -> None:
    gap = gap_of(scale * FIRST, scale * SECOND, "paired")
    assert p_of(gap) == pytest.approx(stats.ttest_rel(FIRST, SECOND).pvalue)


@pytest.mark.parametrize("count", [2, 5, 12])
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_independent_groups_are_those_of_welchs_test(count: int, scale: float) -> None:
    gap = gap_of(scale * FIRST[:count], scale * SECOND, "independent")
    expected = stats.ttest_ind(FIRST[:count], SECOND, equal_var=False)
    assert p_of(gap) == pytest.approx(expected.pvalue)
    assert gap.df == pytest.approx(expected.df)


def test_groups_without_spread_have_no_error() -> None:
    assert gap_of(np.ones(3), np.zeros(4), "independent") == (1.0, 0.0, 5.0)


def test_a_spread_needs_two_scores_of_each_and_pairs_need_equally_many() -> None:
    with pytest.raises(ValueError, match="two of each"):
        gap_of(FIRST[:1], SECOND, "independent")
    with pytest.raises(ValueError, match="equally many"):
        gap_of(FIRST[:3], SECOND, "paired")
