"""The norm that is the best of a task."""

from __future__ import annotations

from adanorm.verdicts.paired import significantly_best
from adanorm.verdicts.variance import TaskVariance


def test_being_the_best_of_many_takes_more_than_being_the_best_of_two() -> None:
    best = {1: 80.0, 2: 80.4, 3: 80.9}
    others = {f"other {n}": {1: 79.2, 2: 79.4, 3: 79.7} for n in range(12)}
    two = TaskVariance({"best": best, "other": others["other 0"]}, 0)
    assert significantly_best(two) == "best"
    small = {
        norm: {seed: score / 100 for seed, score in by_seed.items()} for norm, by_seed in two.scores.items()
    }
    assert significantly_best(TaskVariance(small, 0)) == "best", "in whatever unit"
    assert significantly_best(TaskVariance({"best": best, **others}, 0)) is None
    assert significantly_best(TaskVariance({"best": best}, 0)) is None
    assert significantly_best(TaskVariance({"best": best, "other": others["other 0"], "none": {}}, 0)) is None
