"""The plan with a look after every seed: its levels, and how often it errs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from adanorm.reporting.verdicts.preregistration import preregistration
from adanorm.reporting.verdicts.sequential import fixed_levels, levels_at, nominal_levels
from scripts.benchmarks.verdicts import NOISES
from scripts.benchmarks.verdicts_sequential import sequential_plan

PLAN = {"level": 0.05, **preregistration().stopping.model_dump()}


def test_one_look_has_the_whole_level() -> None:
    assert nominal_levels(40, 40, 0.05, 1.5) == pytest.approx((0.05,))


def test_two_equal_looks_of_pococks_spending_are_those_of_the_books() -> None:
    """Half the level by half the seeds, then the rest: 2.241 and 2.125 (from a bivariate normal)."""
    first, second = nominal_levels(1, 2, 0.05, 1.0)
    assert first == pytest.approx(0.025)
    bound, earlier = stats.norm.isf(second / 2), stats.norm.isf(0.0125)
    cov = [[1, 2**-0.5], [2**-0.5, 1]]
    inside = stats.multivariate_normal(cov=cov).cdf([earlier, bound], lower_limit=[-earlier, -bound])
    assert 1 - inside == pytest.approx(0.05, abs=1e-4)


def test_all_looks_together_have_the_level_and_spend_it_as_registered() -> None:
    random = np.random.default_rng(0)
    scores = random.standard_normal((40_000, 40)).cumsum(1) / np.sqrt(np.arange(1, 41))
    levels = np.array(nominal_levels(3, 40, 0.05, 1.5))
    crossed = (2 * stats.norm.sf(np.abs(scores[:, 2:])) < levels).cumsum(1) > 0
    assert crossed[:, -1].mean() == pytest.approx(0.05, abs=0.004)
    assert crossed[:, 17].mean() == pytest.approx(0.05 * 0.5**1.5, abs=0.003), "after 20 of 40 seeds"


def test_planned_seeds_are_read_as_a_fixed_plan_and_seeds_beyond_the_most_not_at_all() -> None:
    assert levels_at(2, **PLAN) == levels_at(3, **PLAN) == fixed_levels(0.05) == (0.05, 0.1)
    assert levels_at(4, **PLAN).difference < 0.01
    with pytest.raises(ValueError, match="the plan reads at most 40"):
        levels_at(41, **PLAN)


def test_looking_after_every_seed_errs_no_more_often_than_the_level() -> None:
    found = sequential_plan(NOISES["normal"], 0.0, draws=60, margin=1.0)
    assert found["ever_different"] <= 0.12, (
        "0.05, of 60 draws; results/bench/verdicts-sequential.csv has it of 2,000"
    )
    assert found["mean_seeds"] < 30, "it stops before the most"
