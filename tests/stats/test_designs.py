"""Standard errors and degrees of freedom of two groups of scores, against SciPy."""

import numpy as np
import pytest
from scipy import stats

from adanorm.stats.designs import moments_of

RANDOM = np.random.default_rng(0)
FIRST, SECOND = RANDOM.normal(0.3, 1, 12), RANDOM.normal(0, 3, 12)


@pytest.mark.parametrize("count", [2, 5, 12])
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_independent_groups_are_those_of_welchs_test(count: int, scale: float) -> None:
    moments = moments_of(scale * FIRST[:count], scale * SECOND)
    expected = stats.ttest_ind(FIRST[:count], SECOND, equal_var=False)
    mean = scale * (FIRST[:count].mean() - SECOND.mean())
    assert mean / moments.error == pytest.approx(expected.statistic)
    assert moments.df == pytest.approx(expected.df)


def test_groups_without_spread_have_no_error() -> None:
    moments = moments_of(np.ones(3), np.zeros(4))
    assert (moments.error, moments.df) == (0.0, 5.0)


def test_a_spread_needs_two_scores_of_each() -> None:
    with pytest.raises(ValueError, match="two of each"):
        moments_of(FIRST[:1], SECOND)
