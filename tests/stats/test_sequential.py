"""The plan with a look after every seed: its levels, and how often it errs."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from adanorm.stats.sequential import Looks, nominal_levels
from adanorm.stats.variance import TaskVariance
from adanorm.verdicts.plan import compare_by
from adanorm.verdicts.preregistration import first_plan, preregistration
from scripts.benchmarks.verdicts_sequential import LOOKED_AT, WIDE, looks, plans, sequential_plan
from tests.verdicts import not_none

PLAN = preregistration().looks_of("first")


def test_one_look_has_the_whole_level_and_others_are_refused() -> None:
    assert nominal_levels((40,), 0.05, 1.5) == pytest.approx((0.05,))
    assert Looks((40,), 1.5).levels(40) == pytest.approx((0.05, 0.1)), (
        "equivalence is two one-sided tests"
    )
    assert PLAN.levels(4).difference < 0.01
    for seeds in (2, 41):
        with pytest.raises(ValueError, match=f"{seeds} seeds: the plan has looks after 3, 4, "):
            PLAN.levels(seeds)
    for after, spending in (((1, 3), 1.5), ((5, 3), 1.5), ((3, 3), 1.5), ((3, 5), -1.0)):
        with pytest.raises(ValueError, match="looks rise, from 2 on"):
            Looks(after, spending).levels(after[0])


@pytest.mark.parametrize("spending", [1e-9, 10.0, 20.0, 1e12])
@pytest.mark.parametrize("after", [(2, 3), (2, 3, 30)])
def test_a_look_has_next_to_nothing_or_all_where_the_plan_spends_so(
    after: tuple[int, ...], spending: float
) -> None:
    levels = nominal_levels(after, 0.05, spending)
    assert all(0 < level <= 0.05 for level in levels)
    assert levels[-1 if spending > 1 else 0] == pytest.approx(0.05, rel=0.02)


@pytest.mark.parametrize(
    "plan", [*map(preregistration().looks_of, ("first", "fresh", "small")), Looks((2, 3, 5), 0.5)]
)
def test_all_looks_of_a_plan_together_have_the_level_and_spend_it_as_registered(
    plan: Looks,
) -> None:
    """Between two looks no bound stops a comparison."""
    draws = 1_600_000 // plan.after[-1]
    gaps = np.random.default_rng(1).standard_normal((draws, plan.after[-1]))
    goes_on, spent = np.full(draws, True), 0.0
    for seeds, level in zip(
        plan.after, nominal_levels(plan.after, 0.05, plan.spending), strict=True
    ):
        goes_on &= stats.ttest_1samp(gaps[:, :seeds], 0, axis=1).pvalue >= level
        spent = 0.05 * (seeds / plan.after[-1]) ** plan.spending
        assert 1 - goes_on.mean() == pytest.approx(spent, abs=4 * (spent / draws) ** 0.5)
    assert spent == 0.05


@pytest.mark.parametrize(
    ("noise", "gap"), [("normal", 0.0), ("unequal, of the two noisiest", WIDE)]
)
def test_looking_after_every_seed_errs_no_more_often_than_the_level(noise: str, gap: float) -> None:
    """This also holds where norms differ in spread: a look borrows no variance from the calmer ones."""
    unit = float(LOOKED_AT[noise].spreads[:2].mean())
    rates = sequential_plan(
        LOOKED_AT[noise],
        gap * unit,
        draws=2000,
        margin=max(gap, 1.0) * unit,
    )
    error = rates["better"] + rates["worse"] if gap == 0 else rates["equivalent"]
    assert error <= 0.05
    bound = rates["ever_different" if gap == 0 else "ever_equivalent"]
    assert bound == pytest.approx(0.05, abs=0.012), "if nothing ended it; 2,000 draws"
    assert rates["mean_seeds"] < 25, "it stops before the most"


def test_the_simulated_looks_are_those_that_tables_read() -> None:
    gaps = np.random.default_rng(5).normal(0.9, 1.4, (1, 40))
    of_b = dict(enumerate(gaps[0].tolist()))
    scores = {"a": dict.fromkeys(of_b, 0.0), "b": of_b, "c": {0: 5.0, 1: 9.0}}
    plan = replace(first_plan("rt"), margin=0.5)
    paired = np.stack([np.zeros_like(gaps), gaps], axis=1)
    simulated = looks(paired, margin=0.5, plan=plans()["first"])
    for n in range(4, 41):
        variance = TaskVariance(
            {norm: {s: x[s] for s in x if s < n} for norm, x in scores.items()}, 8
        )
        comparison = not_none(compare_by(plan, [variance], ("b", "a")))
        differs = not comparison.interval.low <= 0 <= comparison.interval.high
        assert differs == simulated.different[0, n - 3]
        assert (comparison.size == "within the margin") == simulated.equivalent[0, n - 3]
    assert 0 < simulated.different.sum() < 38
