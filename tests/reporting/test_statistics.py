"""The statistics on data whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower

from adanorm.reporting import statistics
from adanorm.reporting.statistics import (
    difference,
    holm,
    over_examples,
    seeds_needed,
    significantly_best,
    t_interval,
)


def test_the_paired_test_errs_in_one_of_twenty_nulls() -> None:
    random = np.random.default_rng(1)
    wrong = 0
    for _ in range(2000):
        seeds = random.normal(75, 1, 5)  # a seed helps or hurts both alike
        first, second = (seeds + random.normal(0, 0.5, 5) for _ in range(2))
        p = difference(first.tolist(), second.tolist()).p
        assert p is not None
        wrong += p < 0.05
    assert 0.04 < wrong / 2000 < 0.06


def test_the_permutation_test_over_examples_errs_in_one_of_twenty_nulls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(statistics, "RESAMPLES", 399)
    random = np.random.default_rng(2)
    wrong = 0
    for _ in range(2000):
        hard = random.random(80)
        first, second = ((random.random((1, 80)) < hard) * 100.0 for _ in range(2))
        wrong += over_examples(first, second).p < 0.05
    assert 0.03 < wrong / 2000 < 0.06, "discrete data make it err a little less often"


def test_the_t_interval_covers_the_mean_in_nineteen_of_twenty() -> None:
    random = np.random.default_rng(3)
    covered = 0
    for _ in range(2000):
        interval = t_interval(random.normal(35.5, 0.2, 3).tolist())
        assert interval is not None
        covered += interval.low < 35.5 < interval.high
    assert 0.94 < covered / 2000 < 0.96


def test_the_bootstrap_interval_covers_the_difference_in_nineteen_of_twenty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(statistics, "RESAMPLES", 400)
    random = np.random.default_rng(4)
    covered = 0
    for _ in range(1000):
        first = (random.random((1, 300)) < 0.70) * 100.0
        second = (random.random((1, 300)) < 0.75) * 100.0
        interval = over_examples(first, second).interval
        covered += interval.low <= 5 <= interval.high
    assert 0.925 < covered / 1000 < 0.965


@pytest.mark.parametrize(("gap", "spread"), [(1.0, 1.0), (0.1, 0.2), (-2.0, 1.5), (0.1, 1.0)])
def test_the_seeds_needed_are_those_that_reach_the_power(gap: float, spread: float) -> None:
    count = seeds_needed(gap, spread)
    assert count is not None
    power = TTestPower().power(abs(gap) / spread, count, 0.05)
    assert power >= 0.8
    assert TTestPower().power(abs(gap) / spread, count - 1, 0.05) < 0.8


def test_power_is_as_computed() -> None:
    count = seeds_needed(1.0, 1.0)
    assert count == 10
    random = np.random.default_rng(5)
    samples = random.normal(1, 1, (2000, count))
    found = (stats.ttest_1samp(samples, 0, axis=1).pvalue < 0.05).mean()
    assert 0.78 < found < 0.84


def test_a_gap_far_beyond_the_spread_needs_a_pair() -> None:
    assert seeds_needed(100.0, 0.1) == 2


def test_a_gap_that_no_plan_finds_needs_no_number() -> None:
    assert seeds_needed(0.001, 1.0) is None
    assert seeds_needed(0.0, 1.0) is None


def test_a_difference_is_scipys_paired_t_test() -> None:
    first, second = [75.1, 76.0, 74.2, 75.5], [75.9, 76.3, 75.6, 75.4]
    found = difference(first, second)
    theirs = stats.ttest_rel(second, first)
    assert found.p == pytest.approx(theirs.pvalue)
    assert found.interval == pytest.approx(tuple(theirs.confidence_interval(0.95)))
    assert found.mean == pytest.approx(0.6)
    assert found.pairs == 4


def test_one_pair_has_a_mean_and_nothing_else_and_no_spread_no_plan() -> None:
    assert difference([1.0], [3.0]) == (2.0, None, None, 1, None)
    assert difference([1.0, 2.0], [1.0, 2.0]).p == 1.0
    assert difference([1.0, 2.0], [3.0, 4.0]).p == 0.0


@pytest.mark.parametrize("ps", [[0.01, 0.04, 0.03], [0.5], [0.2, 0.2, 0.9, 0.6], [0.0, 1.0, 0.01]])
def test_holms_correction_is_that_of_statsmodels(ps: list[float]) -> None:
    assert holm(ps) == pytest.approx(multipletests(ps, method="holm")[1].tolist())
    assert holm([]) == []


def test_the_two_errors_are_told_apart() -> None:
    random = np.random.default_rng(6)
    first = np.zeros((8, 400))
    by_seed = random.normal(0, 5, (8, 1)).repeat(400, 1)  # a seed moves every example alike
    found = over_examples(first, by_seed)
    assert found.seed_error == pytest.approx(by_seed[:, 0].std(ddof=1) / 8**0.5)
    assert found.example_error == pytest.approx(0)
    by_example = random.normal(0, 5, (1, 400)).repeat(8, 0)
    found = over_examples(first, by_example)
    assert found.seed_error == pytest.approx(0)
    assert found.example_error == pytest.approx(by_example[0].std(ddof=1) / 20)


def test_the_best_is_best_against_every_other_or_there_is_none() -> None:
    seeds = range(5)
    clear = {"a": {s: 90 + s / 10 for s in seeds}, "b": {s: 80 + s / 9 for s in seeds}}
    assert significantly_best(clear, lower_is_better=False) == "a"
    assert significantly_best(clear, lower_is_better=True) == "b"
    close = {**clear, "c": {s: 90 + (-1) ** s for s in seeds}}
    assert significantly_best(close, lower_is_better=False) is None
    assert significantly_best({**clear, "c": {}}, lower_is_better=False) is None
