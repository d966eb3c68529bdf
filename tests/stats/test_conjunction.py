"""Claims over data sets against definitions and libraries of others."""

from dataclasses import replace
from statistics import fmean

import pytest
from scipy import stats

from adanorm.stats.comparison import compare_gaps
from adanorm.stats.conjunction import (
    corrected,
    count_shown,
    fisher_test,
    in_family,
    partial_conjunction,
    pooled,
    sign_test,
    significantly_best,
)
from adanorm.stats.sequential import Levels
from adanorm.stats.variance import TaskVariance
from tests.stats.test_comparison import of_gap
from tests.verdicts import not_none


def test_on_all_data_sets_the_largest_p_decides_and_on_one_or_more_it_is_fishers_test() -> None:
    ps = [0.01, 0.04, 0.03]
    assert partial_conjunction(ps, 3) == pytest.approx(0.04)
    for at_least, largest in ((1, ps), (2, [0.03, 0.04])):
        assert partial_conjunction(ps, at_least) == pytest.approx(
            stats.combine_pvalues(largest).pvalue
        )
    ps = [0.001] * 7 + [1.0]
    assert partial_conjunction(ps, 7) < 0.05 < partial_conjunction(ps, 8), (
        "seven are not refuted by one"
    )
    assert [count_shown(some, 0.05) for some in (ps, [0.5, 0.6], [0.001, 0.9])] == [7, 0, 1]


def test_families_are_corrected_as_in_holms_paper() -> None:
    assert corrected([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert corrected([0.4, 0.9, 0.7]) == [1.0, 1.0, 1.0]
    assert corrected([]) == []


def test_a_sign_test_leaves_ties_out() -> None:
    assert sign_test([0.2, 0.1, 0.2, 0.0, 0.29, 1.31, 0.22, 0.11]) == pytest.approx(
        (7, 0, 2 * 0.5**7)
    )
    assert sign_test([0.0]) == (0, 0, 1.0)
    assert sign_test([0.1, 0.2, 0.3, -0.1]) == pytest.approx((3, 1, 2 * (1 + 4) / 2**4))
    for wins, losses in ((8, 0), (2, 6), (4, 4), (11, 9)):
        expected = stats.binomtest(wins, wins + losses).pvalue
        assert sign_test([1.0] * wins + [-1.0] * losses)[2] == pytest.approx(expected)


def test_fishers_exact_test_is_that_of_scipy() -> None:
    for events, trials in (
        ((6, 0), (6, 6)),
        ((3, 1), (10, 20)),
        ((0, 2), (3, 5)),
        ((5, 5), (9, 9)),
    ):
        table = [[event, trial - event] for event, trial in zip(events, trials, strict=True)]
        assert fisher_test(events, trials) == pytest.approx(stats.fisher_exact(table).pvalue)


def test_being_the_best_of_many_takes_more_than_being_the_best_of_two() -> None:
    best = {1: 80.0, 2: 80.4, 3: 80.9}
    others = {f"other {n}": {1: 79.2, 2: 79.4, 3: 79.7} for n in range(12)}
    two = {"best": best, "other": others["other 0"]}
    assert significantly_best(TaskVariance(two, 0), 0.05) == "best"
    for scores in ({"best": best, **others}, {"best": best}, {**two, "none": dict[int, float]()}):
        assert significantly_best(TaskVariance(scores, 0), 0.05) is None


def test_a_family_counts_comparisons_without_runs_and_its_correction_decides_the_sign() -> None:
    near, far = of_gap(1.0, sd=0.7), of_gap(3.0, sd=0.7)
    family = in_family([near, None, far])
    assert family[1] is None
    corrected_near, corrected_far = not_none(family[0]), not_none(family[2])
    assert (corrected_near.family_p, corrected_far.family_p) == pytest.approx(
        (2 * near.p, 3 * far.p)
    )
    assert (near.sign, corrected_near.sign, corrected_far.sign) == (
        "ahead",
        "not told apart",
        "ahead",
    )


def test_one_estimate_over_tasks_is_their_mean_tested_as_welch_does() -> None:
    first, second = [1.1, 0.8, 1.2], [0.3, -0.9, 0.4]
    both = pooled([not_none(compare_gaps(gaps, 0.5)) for gaps in (first, second)])
    assert both.gap == pytest.approx((fmean(first) + fmean(second)) / 2)
    welch = stats.ttest_ind(first, [-gap for gap in second], equal_var=False)
    assert (both.p, both.df) == pytest.approx((welch.pvalue, welch.df))
    assert both.interval == pytest.approx([end / 2 for end in welch.confidence_interval()])
    one = of_gap(1.0)
    alone = pooled([one])
    assert (alone.gap, alone.error, alone.df) == pytest.approx((1.0, one.error, one.df))
    assert alone.interval == pytest.approx(one.interval)
    for none in ([], [None], [one, None]):
        with pytest.raises(ValueError, match="one or more, and none of them None"):
            pooled(none)  # type: ignore[arg-type]
    wide = (
        replace(one, margin=2.0),
        replace(one, level=0.01),
        replace(one, levels=Levels(0.01, 0.1)),
    )
    for comparison, name in zip(wide, ("margin", "level", "levels"), strict=True):
        with pytest.raises(ValueError, match=f"^{name} .* pool what has one {name}$"):
            pooled([one, comparison])
