"""The variance of a comparison against formulas and libraries of others."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import digamma, polygamma

from adanorm.stats.variance import (
    Components,
    Spread,
    TaskVariance,
    components,
    prediction,
    seed_split,
)
from scripts.benchmarks.verdicts import NOISES, fixed_plan
from tests.verdicts import not_none

NORMS = ("a", "b", "c", "d", "e", "f", "g")


def table(values: np.ndarray) -> dict[str, dict[int, float]]:
    return {
        norm: dict(enumerate(row.tolist(), 1)) for norm, row in zip(NORMS, values, strict=False)
    }


def test_where_norms_spread_alike_the_whole_residual_is_borrowed_if_allowed() -> None:
    scores = np.random.default_rng(3).normal(75, 1, (7, 3)) + np.array([5.0, 0, -5])
    own = TaskVariance(table(scores), prior_df_at_most=0).of_difference("a", "b")
    assert own == pytest.approx((np.std(scores[1] - scores[0], ddof=1), 2)), "without a prior"
    variance = TaskVariance(table(scores), prior_df_at_most=1000)
    residual = scores - scores.mean(1, keepdims=True) - scores.mean(0) + scores.mean()
    pooled = math.sqrt(np.square(residual).sum() / 12)  # (7 - 1) (3 - 1) degrees of freedom
    assert variance.prior_df > 10, "these variances spread no more than chance has them do"
    assert variance.of_difference("a", "b") == pytest.approx((math.sqrt(2) * pooled, 12))
    assert variance.residual == pytest.approx((12 * pooled**2, 12))
    one_seed = TaskVariance({**variance.scores, "a": {1: 75.0}}, 1000)
    assert not_none(one_seed.of_difference("a", "b")).df == 10, "all that the other norms leave"


def test_the_residual_of_a_table_with_gaps_is_that_of_least_squares() -> None:
    random = np.random.default_rng(4)
    scores = {
        norm: {s: random.normal() for s in range(1, 2 + k)} for k, norm in enumerate(NORMS[:5], 1)
    }
    cells = [(norm, seed) for norm, by_seed in scores.items() for seed in by_seed]
    effects = [
        [norm == n for n in NORMS[:5]] + [seed == s for s in range(2, 7)] for norm, seed in cells
    ]
    design, values = np.array(effects, float), np.array([scores[n][s] for n, s in cells])
    rest = values - design @ np.linalg.pinv(design) @ values
    df = len(values) - np.linalg.matrix_rank(design)
    assert TaskVariance(scores, 8).residual == pytest.approx((rest @ rest, df))


@pytest.mark.parametrize(
    ("number", "verdict"),
    [(75.0, "consistent"), (77.0, "inconclusive"), (79.0, "differs"), (71.0, "differs")],
)
def test_one_more_run_spreads_as_a_norms_seeds_do_and_a_number_has_a_percentile_in_it(
    number: float, verdict: str
) -> None:
    scores = np.random.default_rng(5).normal(75, 1, (4, 3))
    within = TaskVariance(table(scores), 8).within
    assert within == pytest.approx((math.sqrt(scores.var(1, ddof=1).mean()), 8))
    one = prediction(
        number,
        rounding=0.005,
        mean=75.0,
        count=3,
        spread=Spread(1.0, 12),
    )
    assert one.verdict == verdict
    distance = (number - 75.0) / math.sqrt(1 + 1 / 3)
    assert one.percentile == pytest.approx(100 * stats.t.cdf(distance, 12))
    assert one.p == pytest.approx(
        2 * stats.t.sf(max(0, abs(distance) - 0.005 / math.sqrt(1 + 1 / 3)), 12)
    )


def test_three_pairs_of_two_seeds_estimate_the_prior_and_a_single_seed_does_not() -> None:
    unlike = {"a": {1: 0.0, 2: 0.001}, "b": {1: 0.0, 2: 10.0}, "c": {1: 0.0, 2: 0.002}}
    prior_df = TaskVariance(unlike, prior_df_at_most=8).prior_df
    assert prior_df < 1, "two of the three variances are ten thousand times the third"
    assert TaskVariance({**unlike, "d": {1: 5.0}}, prior_df_at_most=8).prior_df == prior_df
    two = {norm: unlike[norm] for norm in ("a", "b")}
    assert TaskVariance(two, prior_df_at_most=8).prior_df == 8


@pytest.mark.parametrize("resolution", [0.0, 3.0])
def test_the_prior_is_smyths_estimate_from_the_variances_of_all_pairs(resolution: float) -> None:
    """For rounded scores the variance of a difference is at least that of two uniform errors."""
    scores = np.random.default_rng(5).normal(75, 1, (4, 4)) * np.array([[1.0], [30], [1], [1]])
    counts = (4, 4, 4, 2)  # of seeds
    pairs = [
        (scores[i] - scores[j])[: min(counts[i], counts[j])] for i in range(4) for j in range(i)
    ]
    halves = np.array([len(gaps) - 1 for gaps in pairs]) / 2
    variances = [max(stats.tvar(gaps), 2 * resolution**2 / 12) for gaps in pairs]
    assert (min(variances) == 2 * resolution**2 / 12) == (resolution > 0)
    logs = np.log(variances) - digamma(halves) + np.log(halves)
    excess = stats.tvar(logs) - polygamma(1, halves).mean()
    rows = {
        n: dict(enumerate(row[:k].tolist()))
        for n, row, k in zip(
            "abcd",
            scores,
            counts,
            strict=True,
        )
    }
    assert polygamma(1, TaskVariance(rows, 1000, resolution).prior_df / 2) == pytest.approx(excess)


def test_equal_scores_have_the_variance_that_rounding_leaves() -> None:
    """Seven norms that score alike on 500 images differ by less than a rounding step, and are not sure."""
    scores = table(np.full((7, 3), 97.8))
    assert TaskVariance(scores, 8).of_difference("a", "b") is None
    difference = not_none(TaskVariance(scores, 8, resolution=0.2).of_difference("a", "b"))
    assert difference.sd == pytest.approx(math.sqrt(2 * 0.2**2 / 12)), (
        "of a difference of two uniform errors"
    )
    assert not_none(TaskVariance(scores, 8, 0.2).within).sd == pytest.approx(0.2 / math.sqrt(12))


def test_seeds_that_norms_do_not_share_are_no_part_of_their_gap() -> None:
    variance = TaskVariance({"a": {1: 1.0, 2: 2.0, 3: 9.0}, "b": {1: 2.0, 2: 3.5, 4: 0.0}}, 8)
    assert variance.shared("a", "b") == [1, 2]
    assert variance.gaps("a", "b") == [1.0, 1.5]
    assert variance.of_difference("a", "b") == pytest.approx((0.5 / math.sqrt(2), 1))
    assert (TaskVariance({}, 8).residual, TaskVariance({}, 8).within) == ((0.0, 0), None)
    assert TaskVariance({"a": {1: 1.0}, "b": {2: 2.0}}, 8).of_difference("a", "b") is None


@pytest.mark.parametrize(
    ("noise", "seeds"),
    [
        ("normal", 3),
        ("unequal, 1 to 4", 3),
        ("quantized", 10),
        pytest.param("quantized", 3, marks=pytest.mark.nightly),
        pytest.param("normal", 10, marks=pytest.mark.nightly),
        pytest.param("unequal, 1 to 4", 10, marks=pytest.mark.nightly),
    ],
)
def test_intervals_cover_and_equivalence_is_seldom_false(noise: str, seeds: int) -> None:
    rates = fixed_plan(NOISES[noise], seeds, draws=300)["moderated"]
    # 300 draws of 21 dependent pairs: a standard error of about 0.4 %.
    assert 0.935 <= rates["coverage"] <= 0.97
    assert rates["false_equivalent"] <= 0.06


def test_components_are_those_of_the_analysis_of_variance() -> None:
    crossed = components(np.array([[1.0, 2.0, 6.0], [2.0, 5.0, 8.0]]))
    # The means are 3 and 5 for seeds, 1.5, 3.5 and 7 for examples, 4 for all; +-.5, -+.5 and 0 are
    # left.
    ms_seeds, ms_examples, ms_rest = 3 * 2.0, 2 * 7.75, (4 * 0.25) / 2
    assert crossed.example_error == pytest.approx(math.sqrt((ms_examples - ms_rest) / 2 / 3))
    assert crossed == ((ms_seeds - ms_rest) / 3, (ms_examples - ms_rest) / 2, ms_rest, 2, 3)
    assert (
        Components(
            1.0,
            -3.0,
            1.0,
            5,
            100,
        ).example_error
        == 0
    )
    assert components(np.array([[1.0, 2.0, 6.0]])) == (None, 7.0, 0.0, 1, 3), (
        "one seed says nothing of seeds"
    )


def test_the_split_is_jordans_formula() -> None:
    """E / (E - 1) (V - sum_e v_e / E^2), where runs get an example right or wrong."""
    random = np.random.default_rng(3)
    right = np.where(random.random((12, 200)) < random.random(200), 100.0, 0.0)
    variance, of_examples = right.mean(1).var(ddof=1), right.var(0, ddof=1).sum()
    expected = 200 / 199 * (variance - of_examples / 200**2)
    assert not_none(seed_split(right)) == pytest.approx(
        (math.sqrt(variance), math.sqrt(max(0, expected)))
    )
    assert seed_split(right[:5]) is not None
    assert seed_split(right[:4]) is None, "five seeds are the fewest"
