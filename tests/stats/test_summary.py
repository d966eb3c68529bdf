"""Summaries over data sets, against published analyses and closed forms."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from adanorm.stats import summary as summaries
from adanorm.stats.summary import multiple_of, posterior, random_effects

# Thirteen trials of a vaccine (Colditz et al. 1994): cases and others, vaccinated and not.
TRIALS = np.array(
    [
        [4, 119, 11, 128],
        [6, 300, 29, 274],
        [3, 228, 11, 209],
        [62, 13536, 248, 12619],
        [33, 5036, 47, 5761],
        [180, 1361, 372, 1079],
        [8, 2537, 10, 619],
        [505, 87886, 499, 87892],
        [29, 7470, 45, 7232],
        [17, 1699, 65, 1600],
        [186, 50448, 141, 27197],
        [5, 2493, 3, 2338],
        [27, 16886, 29, 17825],
    ],
    dtype=float,
)


def log_risk_ratios() -> tuple[np.ndarray, np.ndarray]:
    cases, others, cases_without, others_without = TRIALS.T
    total, total_without = cases + others, cases_without + others_without
    effects = np.log(cases / total) - np.log(cases_without / total_without)
    variances = 1 / cases - 1 / total + 1 / cases_without - 1 / total_without
    return effects, np.sqrt(variances)


def test_random_effects_are_those_that_metafor_prints() -> None:
    """Viechtbauer 2010, section 4: estimate -0.7145, tau² 0.3132, Q 152.23 on 12."""
    summary = random_effects(*log_risk_ratios())
    assert summary.mean == pytest.approx(-0.7145, abs=5e-5)
    assert summary.deviation**2 == pytest.approx(0.3132, abs=5e-5)
    assert summary.heterogeneity_p == pytest.approx(stats.chi2.sf(152.2330, 12), rel=1e-4)


def test_the_interval_is_that_of_hartung_and_knapp() -> None:
    effects, errors = log_risk_ratios()
    summary = random_effects(effects, errors)
    weights = 1 / (errors**2 + summary.deviation**2)
    squares = (weights * (effects - summary.mean) ** 2).sum() / 12
    assert summary.error == pytest.approx(math.sqrt(max(1, squares) / weights.sum()))
    low, high = stats.t.interval(
        0.95,
        12,
        summary.mean,
        summary.error,
    )
    assert summary.interval() == pytest.approx((low, high))
    assert summary.p == pytest.approx(2 * stats.t.sf(abs(summary.mean) / summary.error, 12))


def test_data_sets_that_agree_by_chance_do_not_narrow_the_interval() -> None:
    summary = random_effects(np.array([0.2, 0.2, 0.2, 0.2]), np.full(4, 1.0))
    assert summary.deviation == 0
    assert summary.error == pytest.approx(0.5)
    assert summary.heterogeneity_p == 1


def test_the_mean_finds_no_difference_where_there_is_none() -> None:
    """In 600 draws of eight data sets whose errors are known from few seeds, at most 8 % differ."""
    random = np.random.default_rng(1)
    dfs = np.array([5, 5, 5, 9, 19, 19, 19, 4])
    wrong = 0
    for _ in range(600):
        estimated = np.sqrt(random.chisquare(dfs) / dfs)
        wrong += random_effects(random.standard_normal(8), estimated).p < 0.05
    assert wrong / 600 <= 0.08


PLAIN = {"effects": [1.0, 2.0], "errors": [0.5, 1.0], "dfs": [5.0, 9.0]}


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("effects", [1.0], "data sets or more, a number for each"),
        ("errors", [[1.0, 1.0]], "data sets or more, a number for each"),
        ("effects", [1.0, math.nan], "data set 2: effects nan: must be finite"),
        ("effects", [math.inf, 1.0], "data set 1: effects inf: must be finite"),
        ("errors", [1.0, 0.0], "data set 2: errors 0: must be positive and at most"),
        ("errors", [-1.0, 1.0], "data set 1: errors -1: must be positive"),
        ("errors", [math.inf, 1.0], "data set 1: errors inf: must be positive"),
        ("errors", [1e-200, 1.0], "data set 1: errors 1e-200: must be positive"),
        ("dfs", [5.0, 0.0], "data set 2: dfs 0: must be positive"),
        ("dfs", [math.nan, 5.0], "data set 1: dfs nan: must be positive"),
        ("reference", [1.0], "data sets or more, a number for each"),
        ("reference", [1.0, math.nan], "data set 2: reference nan: must be finite"),
    ],
)
def test_numbers_out_of_range_are_refused_with_the_data_set(
    column: str, values: list[float], message: str
) -> None:
    columns = {**PLAIN, "reference": [1.0, 1.0], column: values}
    effects, errors, dfs, reference = map(np.array, columns.values())
    with pytest.raises(ValueError, match=message):
        multiple_of(effects, errors, dfs, reference)
    if column != "reference":
        with pytest.raises(ValueError, match=message):
            posterior(effects, errors, dfs)
    if column in ("effects", "errors"):
        with pytest.raises(ValueError, match=message):
            random_effects(effects, errors)


def test_a_mean_needs_two_data_sets() -> None:
    number = np.array([1.0])
    with pytest.raises(ValueError, match="2 data sets or more"):
        random_effects(number, number)
    with pytest.raises(ValueError, match="2 data sets or more"):
        posterior(number, number, number)


def test_lists_are_as_good_as_arrays_and_errors_may_be_known_exactly() -> None:
    lists: list[Any] = [*PLAIN.values(), [1.0, 3.0]]
    arrays = [np.array(values) for values in lists]
    assert random_effects(*lists[:2]) == random_effects(*arrays[:2])
    assert posterior(*lists[:3]) == posterior(*arrays[:3])
    assert multiple_of(*lists) == multiple_of(*arrays)
    known = np.full(2, math.inf)
    normal = multiple_of(arrays[0], arrays[1], known, arrays[0])
    assert normal.p_of(0.5) == pytest.approx(
        2 * stats.norm.sf(abs(normal.value - 0.5) / normal.error)
    )


def test_a_multiple_is_the_slope_through_zero() -> None:
    random = np.random.default_rng(0)
    reference, errors = random.uniform(0.1, 1, 8), random.uniform(0.1, 1, 8)
    effects = 0.4 * reference + errors * random.standard_normal(8)
    found = multiple_of(
        effects,
        errors,
        np.full(8, 9.0),
        reference,
    )
    slope, *_ = np.linalg.lstsq((reference / errors)[:, None], effects / errors, rcond=None)
    assert found.value == pytest.approx(slope[0])
    assert found.error == pytest.approx(1 / np.linalg.norm(reference / errors))
    assert found.p_of(found.value) == pytest.approx(1)
    low, high = found.interval()
    assert found.p_of(low) == pytest.approx(0.05)
    assert found.p_of(high) == pytest.approx(0.05)
    with pytest.raises(ValueError, match="no multiple"):
        multiple_of(
            effects,
            errors,
            np.full(8, 9.0),
            np.zeros(8),
        )


def test_a_multiple_of_one_data_set_keeps_its_degrees_of_freedom() -> None:
    one = np.array([2.0])
    found = multiple_of(
        np.array([3.0]),
        np.array([0.5]),
        np.array([4.0]),
        one,
    )
    assert (found.value, found.df) == (1.5, 4.0)
    assert found.error == 0.25


def test_the_posterior_is_that_of_weighted_draws() -> None:
    """Draws from the prior, weighted by the likelihood of both estimates."""
    effects, errors, dfs = np.array([0.8, -0.1]), np.array([0.5, 0.4]), np.array([5.0, 9.0])
    random = np.random.default_rng(0)
    mean = random.uniform(-6, 6, 1_000_000)
    deviation = np.abs(random.standard_normal(1_000_000))
    true = mean + deviation * random.standard_normal((2, 1_000_000))
    first, second = (
        stats.t.pdf((effects[i] - true[i]) / errors[i], dfs[i]) / errors[i] for i in range(2)
    )
    weights = first * second / (first @ second)
    result = posterior(effects, errors, dfs)
    for shares, values in zip(result.each, true, strict=True):
        drawn = [weights @ (values > border) for border in (1, -1, 0)]
        assert shares.better == pytest.approx(drawn[0], abs=0.01)
        assert shares.worse == pytest.approx(1 - drawn[1], abs=0.01)
        assert shares.positive == pytest.approx(drawn[2], abs=0.01)
        assert sum(shares[:3]) == pytest.approx(1)
    assert result.mean.positive == pytest.approx(weights @ (mean > 0), abs=0.01)
    assert result.mean_effect == pytest.approx(weights @ mean, abs=0.02)


def test_much_data_leave_no_doubt_and_none_leave_the_prior() -> None:
    sure = posterior(np.array([2.0, 2.1, 1.9]), np.full(3, 0.05), np.full(3, 50.0))
    assert all(shares.better > 0.999 for shares in sure.each)
    assert sure.mean_effect == pytest.approx(2.0, abs=0.1)
    vague = posterior(np.array([0.0, 0.0]), np.full(2, 5.0), np.full(2, 50.0))
    assert vague.mean.positive == pytest.approx(0.5, abs=0.01)
    with pytest.raises(ValueError, match="too far apart"):
        posterior(np.array([0.0, 0.0]), np.array([1e-6, 1.0]), np.full(2, 50.0))
    with pytest.raises(ValueError, match="effects 0 to 1e"):
        posterior(np.array([0.0, 1e8]), np.ones(2), np.full(2, 50.0))


def test_an_effect_is_drawn_towards_those_of_other_data_sets() -> None:
    alone = stats.t.sf(-0.5 / 0.5, 5)
    agreeing = posterior(np.array([0.5, -1.0, -1.1, -0.9]), np.full(4, 0.5), np.full(4, 5.0))
    assert agreeing.each[0].positive < alone
    low, high = agreeing.mean_interval
    assert low < agreeing.mean_effect < high


def exact_shares(
    effects: np.ndarray, errors: np.ndarray, border: float
) -> tuple[float, float, float]:
    """P(above the border) of the first true effect, a new one and the mean, for known errors.

    Given the deviation all three are normal; the deviation is integrated out.
    """

    def parts(deviation: float) -> np.ndarray:
        variances = errors**2 + deviation**2
        information = (1 / variances).sum()
        center = (effects / variances).sum() / information
        squares = ((effects - center) ** 2 / variances).sum()
        logs = np.log(variances).sum() + np.log(information) + squares + deviation**2
        drawn = errors[0] ** 2 / variances[0]  # towards the mean
        sd = math.sqrt(drawn * deviation**2 + drawn**2 / information)
        first = stats.norm.sf(border, effects[0] + drawn * (center - effects[0]), sd)
        new = stats.norm.sf(border, center, math.hypot(deviation, information**-0.5))
        mean = stats.norm.sf(border, center, information**-0.5)
        return np.exp(-logs / 2) * np.array([1.0, first, new, mean])

    total, *above = integrate.quad_vec(parts, 1e-9, 30.0, epsrel=1e-8, limit=2000)[0]
    return tuple(float(share / total) for share in above)  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("effects", "errors"),
    [
        ([-0.8, -0.6, -0.5, 0.1, -0.7, 0.0, -0.2], [0.6, 0.4, 0.3, 1.5, 0.3, 0.4, 0.2]),
        ([0.0, 0.1, -0.1, 10.0], [0.2, 0.2, 0.2, 0.2]),
        ([0.02, 0.021, 0.019], [0.002, 0.002, 0.002]),
    ],
)
def test_with_known_errors_the_posterior_is_that_of_quadrature(
    effects: list[float], errors: list[float]
) -> None:
    columns = np.array(effects), np.array(errors)
    result = posterior(*columns, np.full(len(effects), math.inf))
    for border, name in ((0.0, "positive"), (1.0, "better")):
        shares = [getattr(part, name) for part in (result.each[0], result.new, result.mean)]
        assert shares == pytest.approx(exact_shares(*columns, border), abs=1e-3)


@pytest.mark.parametrize(
    ("effects", "errors", "df"),
    [
        ([0.0, 20.0], [0.2, 0.2], 5.0),
        ([0.0, 0.5, -1.0], [0.002, 2.0, 9.0], 2.0),
        ([0.0, 3.0], [1.0, 0.1], 1.0),
        *(
            pytest.param(*columns, marks=pytest.mark.nightly)
            for columns in (
                ([-0.8, -0.6, 0.1, -0.2], [0.6, 0.4, 1.5, 0.2], 5.0),
                ([0.0, 0.1, -0.1, 50.0], [0.2, 0.2, 0.2, 0.2], 19.0),
                ([0.0, 30.0], [1.0, 1.0], 5.0),
            )
        ),
    ],
)
def test_a_grid_twice_as_fine_moves_no_share(
    effects: list[float], errors: list[float], df: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = np.array(effects), np.array(errors), np.full(len(effects), df)
    plain = posterior(*columns)
    monkeypatch.setattr(summaries, "DEVIATIONS", 2 * summaries.DEVIATIONS)
    monkeypatch.setattr(summaries, "MEANS", 2 * summaries.MEANS)
    monkeypatch.setattr(summaries, "STEP", summaries.STEP / 2)
    finer = posterior(*columns)
    both = [(*result.each, result.new, result.mean) for result in (plain, finer)]
    for shares, same in zip(*both, strict=True):
        assert np.isfinite(shares).all()
        assert shares == pytest.approx(same, abs=1e-3)
    width = np.diff(plain.mean_interval)[0]
    assert plain.mean_interval == pytest.approx(finer.mean_interval, abs=0.01 * width)
