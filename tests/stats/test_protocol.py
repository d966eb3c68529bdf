"""What a table of single runs would show, against draws."""

import numpy as np
import pytest
from scipy import stats

from adanorm.stats.protocol import best_of, chosen_shares, count_distribution


@pytest.mark.parametrize("tries", [1, 4])
@pytest.mark.parametrize("by_validation", [False, True])
def test_shown_leads_are_those_of_drawn_tables(tries: int, by_validation: bool) -> None:
    random = np.random.default_rng(0)
    ours, theirs = random.normal(0.2, 1, 9).round(1), random.normal(0, 1, 7).round(1)
    validation = (ours + random.normal(0, 1, 9)).round(1)
    criterion = validation if by_validation else ours
    draws = random.integers(0, 9, (200_000, tries))
    noise = random.uniform(0, 1e-6, draws.shape)  # breaks ties
    best = draws[np.arange(len(draws)), (criterion[draws] + noise).argmax(axis=1)]
    leads = ours[best] - theirs[random.integers(0, 7, len(draws))]
    shown = best_of(
        ours,
        theirs,
        criterion=criterion,
        tries=tries,
        size=0.5,
    )
    assert shown.lead == pytest.approx(leads.mean(), abs=0.01)
    assert shown.ahead == pytest.approx(((leads > 0) + (leads == 0) / 2).mean(), abs=0.005)
    assert shown.as_large == pytest.approx((leads >= 0.5).mean(), abs=0.005)


def test_each_of_equal_runs_is_chosen_as_often() -> None:
    assert chosen_shares(np.zeros(5), 3) == pytest.approx(np.full(5, 0.2))
    assert chosen_shares(np.array([1.0, 2.0, 2.0]), 2) == pytest.approx([1 / 9, 4 / 9, 4 / 9])


def test_the_number_of_leads_is_binomial_for_equal_chances() -> None:
    assert count_distribution([0.3] * 8) == pytest.approx(stats.binom.pmf(np.arange(9), 8, 0.3))
    assert count_distribution([1.0, 0.0]) == pytest.approx([0, 1, 0])
