"""What choosing wins where there is nothing to win, against simulation; agreement with the paper."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from adanorm.reporting.verdicts.reproducibility import agreement, variation
from adanorm.reporting.verdicts.selection import expected_best, level, luck_of_choice


def test_the_level_is_the_mean_of_the_last_third() -> None:
    assert level([1, 1, 1, 9, 2, 4]) == 3
    assert level([5, 7]) == 7
    assert level([]) is None


@pytest.mark.parametrize("count", [1, 2, 4, 10])
def test_the_largest_of_normal_numbers_lies_where_it_is_said_to(count: int) -> None:
    drawn = np.random.default_rng(0).standard_normal((100_000, count)).max(1).mean()
    assert expected_best(count) == pytest.approx(drawn, abs=0.01)


def test_choosing_wins_as_much_as_simulated() -> None:
    random = np.random.default_rng(1)
    cov = [[1.0, 0.6], [0.6, 4.0]]
    runs = random.multivariate_normal([0, 0], cov, (400, 3))
    tried, seeds = 4, 3
    found = luck_of_choice(runs[..., 0].tolist(), runs[..., 1].tolist(), tried=tried, seeds=seeds)
    means = random.multivariate_normal([0, 0], cov, (40_000, tried, seeds)).mean(2)
    chosen = means[np.arange(len(means)), means[..., 0].argmax(1), 1].mean()
    assert found is not None
    assert found[0] == pytest.approx(chosen, rel=0.1)
    assert found[1] == pytest.approx(means[..., 1].max(1).mean(), rel=0.1)
    assert luck_of_choice([[1.0]], [[1.0]], tried=4, seeds=1) is None


def test_orders_upheld_are_counted_among_those_that_the_paper_has() -> None:
    ours, paper = [1.0, 2.0, 3.0, 2.5], [1.0, 1.0, 4.0, 5.0]
    found = agreement(ours, paper)
    assert found is not None
    assert (found.upheld, found.ordered) == (4, 5)
    assert found.spearman == pytest.approx(stats.spearmanr(ours, paper).statistic)
    assert agreement(ours[:2], paper[:2]) is None


def test_the_coefficient_of_variation_is_unbiased_for_normal_numbers() -> None:
    random = np.random.default_rng(2)
    found = np.mean([variation(pair) for pair in random.normal(100, 1, (20_000, 2))])
    assert found == pytest.approx((1 + 1 / 8) * 1.0, rel=0.02)
    assert variation([35.5, 35.6]) == pytest.approx(
        (1 + 1 / 8) * 0.1 / math.sqrt(2) / 35.55 * 100 / 0.797885, rel=1e-4
    )
