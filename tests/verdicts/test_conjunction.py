"""Claims over data sets against definitions and libraries of others."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from adanorm.verdicts.conjunction import (
    corrected,
    count_shown,
    partial_conjunction,
    probability_of_improvement,
    sign_test,
    signed_ranks,
)


def test_on_all_data_sets_the_largest_p_decides_and_needs_no_correction() -> None:
    assert partial_conjunction([0.01, 0.04, 0.03], 3) == pytest.approx(0.04)


def test_on_one_data_set_or_more_it_is_fishers_test() -> None:
    ps = [0.2, 0.04, 0.3]
    assert partial_conjunction(ps, 1) == pytest.approx(stats.combine_pvalues(ps).pvalue)


def test_seven_of_eight_are_not_refuted_by_one() -> None:
    ps = [0.001] * 7 + [1.0]
    assert partial_conjunction(ps, 7) < 0.05 < partial_conjunction(ps, 8)
    assert count_shown(ps, 0.05) == 7
    assert count_shown([0.5, 0.6], 0.05) == 0
    assert count_shown([0.001, 0.9], 0.05) == 1


@pytest.mark.parametrize("at_least", [1, 3, 4])
def test_a_count_errs_no_more_often_than_the_level(at_least: int) -> None:
    """At its least favorable: all but one of the data sets that are needed are sure, the others nil."""
    random = np.random.default_rng(0)
    ps = random.random((3000, 4))
    ps[:, : at_least - 1] = 1e-9
    wrong = np.mean([partial_conjunction(row, at_least) < 0.05 for row in ps.tolist()])
    assert 0.038 < wrong < 0.062


def test_families_are_corrected_as_statsmodels_does() -> None:
    ps = [0.01, 0.04, 0.03, 0.2]
    assert corrected(ps) == pytest.approx(multipletests(ps, method="holm")[1])
    assert corrected([]) == []


def test_the_probability_of_improvement_is_mann_whitneys_averaged_over_tasks() -> None:
    random = np.random.default_rng(1)
    pairs = {task: (random.normal(0.5, 1, 6).round(1), random.normal(0, 1, 5).round(1)) for task in "ab"}
    found = probability_of_improvement({task: (x.tolist(), y.tolist()) for task, (x, y) in pairs.items()})
    expected = [stats.mannwhitneyu(x, y).statistic / (len(x) * len(y)) for x, y in pairs.values()]
    assert found is not None
    assert found.probability == pytest.approx(np.mean(expected))
    assert found.interval.low < found.probability < found.interval.high
    assert found.fewest_seeds == 5


def test_fewer_bits_are_an_improvement() -> None:
    pairs = {"enwik8": ([1.0, 1.1], [1.2, 1.3])}
    found = probability_of_improvement(pairs, lower_is_better=["enwik8"])
    assert found is not None
    assert found.probability == 1
    assert probability_of_improvement({}) is None
    assert probability_of_improvement({"rt": ([], [1.0])}) is None
    two = probability_of_improvement({"rt": ([1.0, 3.0], [2.0, 0.0])})
    assert two is not None
    assert two.interval.low < 0.75 < two.interval.high, "two seeds can be drawn from"
    one = probability_of_improvement({"rt": ([1.0], [2.0, 0.0])})
    assert one is not None
    assert one.interval == (0.5, 0.5)


def test_gaps_within_the_margin_are_equivalent_over_data_sets() -> None:
    inside, above = (
        signed_ranks([0.1, -0.2, 0.3, 0.0, 0.2, -0.1]),
        signed_ranks([3.0, 2.5, 4.0, 2.0, 5.0, 3.0]),
    )
    assert inside is not None
    assert above is not None
    assert inside.equivalent > 0.95
    assert above.better > 0.95
    two = signed_ranks([1.5, 1.5] * 3)
    assert two is not None
    assert two.better > 0.95, "by half as much again as matters"
    assert signed_ranks([1.5] * 5) is not None
    assert signed_ranks([1.5] * 4) is None, "four ranks would look like certainty"


def test_of_the_papers_own_table_only_adanorms_claim_passes_a_sign_test() -> None:
    adanorm = [0.2, 0.1, 0.2, 0.0, 0.29, 1.31, 0.22, 0.11]
    wins, losses, p = sign_test(adanorm)
    assert (wins, losses) == (7, 0)
    assert p == pytest.approx(2 * 0.5**7)
    assert sign_test([0.0]) == (0, 0, 1.0)
    assert sign_test([0.1, 0.2, 0.3, -0.1]) == pytest.approx((3, 1, 2 * (1 + 4) / 2**4))
