"""The statistics against SciPy, statsmodels, baycomp and rliable, by the table that they wrote; and by simulation."""

import csv
import math
import time

import numpy as np
import pytest

from adanorm.stats.comparison import Comparison, Interval, compare_gaps
from adanorm.stats.conjunction import corrected
from adanorm.stats.designs import Moments
from adanorm.stats.sequential import Levels, Looks, seeds_needed
from adanorm.verdicts import compare, league
from tests.verdicts import not_none
from tests.verdicts.reference_values import FILE, drawn

with FILE.open(encoding="utf-8") as file:
    ROWS = [*csv.DictReader(file)]


@pytest.mark.parametrize("row", ROWS, ids=[" ".join([*row.values()][:5]) for row in ROWS])
def test_a_case_has_the_values_of_the_reference_library(row: dict[str, str]) -> None:
    first, second, seed = int(row["first"]), int(row["second"]), int(row["seed"])
    scale = float(row["scale"])
    expected = (float(row["value"]), float(row["other_value"]))
    kind, _, ties = row["kind"].partition(", ")
    if kind == "holm":
        ps = corrected(np.random.default_rng(seed).uniform(0, 0.2, first).tolist())
        assert (ps[0], ps[-1]) == pytest.approx(expected)
    elif kind == "power":
        plan = Looks((2,), 1.0)
        paired = seeds_needed(plan, scale, kind="difference", sd=1.0)
        independent = seeds_needed(plan, scale, kind="difference", sd=2**0.5, df_per_seed=2.0)
        assert (paired, independent) == tuple(math.ceil(number) for number in expected)
    elif kind == "baycomp":
        ours, theirs = drawn(seed, first, second, 1.0)
        gaps = not_none(compare_gaps(ours - theirs, 1.0, overlap=1 / (first - 1)))
        p = min(expected)
        assert gaps.p == pytest.approx(2 * p)
    elif kind == "rliable":
        ours, theirs = drawn(seed, first, second, 1.0, ties=True)
        table = league({"ours": ours, "theirs": theirs}, 1.0)
        assert table.chance("ours", "theirs") == pytest.approx(expected[0])
    else:
        ours, theirs = drawn(seed, first, second, scale, ties=ties == "ties")
        check_comparison(ours, theirs, 0.5 * scale, expected, paired=kind == "paired")


def check_comparison(
    ours: np.ndarray,
    theirs: np.ndarray,
    margin: float,
    expected: tuple[float, float],
    *,
    paired: bool,
) -> None:
    comparison = not_none(compare(ours, theirs, margin, paired=paired))
    assert comparison.design == ("paired" if paired else "independent")
    assert comparison.p == pytest.approx(max(1e-300, expected[0]), rel=1e-6)
    tost = max(comparison.p_of("not inferior"), comparison.p_of("not superior"))
    assert tost == pytest.approx(expected[1], rel=1e-6)
    assert (comparison.size == "within the margin") == (expected[1] < 0.05)
    # Lower is better: the negated scores, and the second norm first, give the mirror image.
    for mirror in (
        not_none(compare(-ours, -theirs, margin, paired=paired)),
        not_none(compare(theirs, ours, margin, paired=paired)),
        comparison.reverse,
    ):
        low, high = comparison.interval
        assert mirror.interval == pytest.approx(Interval(-high, -low))
        assert mirror.p == pytest.approx(comparison.p)


@pytest.mark.parametrize("shared", [0, 2, 3, 6, 10])
def test_partly_shared_seeds_are_the_published_statistic_and_become_the_two_usual_tests(
    shared: int,
) -> None:
    ours, theirs = drawn(3, 10, 10, 1.0)
    first = dict(enumerate(ours))
    second = {seed if seed < shared else 100 + seed: score for seed, score in enumerate(theirs)}
    comparison = not_none(compare(first, second, 0.5))
    if shared == 0:
        assert comparison == compare(ours, theirs, 0.5)
    elif shared == 10:
        assert comparison == compare(ours, theirs, 0.5, paired=True)
    else:
        assert comparison.design == "partly paired"
        r = np.corrcoef(ours[:shared], theirs[:shared])[0, 1]
        v, w = ours.var(ddof=1), theirs.var(ddof=1)
        error = math.sqrt(v / 10 + w / 10 - 2 * r * math.sqrt(v * w) * shared / 100)
        welch = (v / 10 + w / 10) ** 2 / ((v / 10) ** 2 / 9 + (w / 10) ** 2 / 9)
        alone = 2 * (10 - shared)
        df = shared - 1 + (welch - shared + 1) / (alone + 2 * shared) * alone
        assert (comparison.error, comparison.df) == pytest.approx((error, df))
    assert comparison.gap == pytest.approx(ours.mean() - theirs.mean())


@pytest.mark.parametrize(("shared", "rest"), [(6, (4, 4)), (16, (0, 4)), (4, (6, 2))])
def test_partly_shared_seeds_without_a_difference_are_told_apart_in_five_of_a_hundred(
    shared: int, rest: tuple[int, int]
) -> None:
    random, wrong = np.random.default_rng(1), 0
    for _ in range(1000):
        blocks = random.normal(size=shared)
        sides = []
        for side in (0, 1):
            scores = [*(blocks + random.normal(size=shared)), *random.normal(0, 2**0.5, rest[side])]
            seeds = [*range(shared), *range(100 * (side + 1), 100 * (side + 1) + rest[side])]
            sides.append(dict(zip(seeds, scores, strict=True)))
        wrong += not_none(compare(sides[0], sides[1], 0.01)).sign != "not told apart"
    assert 0.03 < wrong / 1000 < 0.07


def test_sorted_lists_of_equal_norms_are_not_told_apart_more_often_than_unsorted_ones() -> None:
    random, wrong = np.random.default_rng(2), 0
    for _ in range(1000):
        ours, theirs = np.sort(random.normal(size=10)), np.sort(random.normal(size=10))
        wrong += not_none(compare(ours.tolist(), theirs.tolist(), 0.01)).sign != "not told apart"
    assert wrong / 1000 < 0.07


def test_scores_per_example_widen_an_interval_whatever_the_design() -> None:
    random = np.random.default_rng(4)
    of_examples = random.normal(0, 4, 40)
    ours = random.normal(size=(6, 1)) + of_examples + random.normal(size=(6, 40))
    theirs = random.normal(size=(5, 1)) - of_examples + random.normal(size=(5, 40))
    alone = not_none(compare(ours.mean(axis=1), theirs.mean(axis=1), 1.0))
    noisy = not_none(compare(ours, theirs, 1.0))
    assert noisy.examples == 40
    assert noisy.gap == pytest.approx(alone.gap)
    error = 2 * of_examples.std(ddof=1) / math.sqrt(40)
    assert noisy.example_error == pytest.approx(error, rel=0.3)
    paired = not_none(compare(dict(enumerate(ours[:5])), dict(enumerate(theirs)), 1.0))
    assert paired.design == "paired"
    assert paired.example_error == pytest.approx(error, rel=0.3)


def test_a_reversed_zero_is_no_negative_zero_and_scale_decides_nothing() -> None:
    table = league({"a": {1: 1.0, 2: 2.0, 3: 3.0}, "b": {1: 2.0, 2: 1.0, 3: 3.0}}, 0.5)
    for two in (("a", "b"), ("b", "a")):
        assert math.copysign(1, not_none(table.comparison(*two)).gap) == 1.0
    assert Interval(-0.001, 1.0).text(2) == "+0.00 to +1.00"
    tiny = [1e-10, 3e-10, 2e-10], [2e-10, 5e-10, 1e-10]
    assert not_none(compare(*tiny, 1e-10, paired=True)).sd > 0
    equal = [75.8, 76.1, 75.3], [75.7, 76.0, 75.2]
    assert compare(*equal, 0.5, paired=True) is None, "gaps that differ by rounding alone"


def test_a_chance_of_winning_every_time_is_told_for_pairs_and_for_groups() -> None:
    wins = league({"a": {1: 2.0, 2: 3.5, 3: 4.0}, "b": {1: 1.0, 2: 2.0, 3: 3.5}}, 0.5)
    assert wins.luck("a", "b") == wins.luck("b", "a") == 8
    groups = league({"a": [2.0, 3.0], "b": [1.0, 0.0]}, 0.5)
    assert groups.luck("a", "b") == 6
    assert league({"a": [2.0, 3.0], "b": [1.0, 2.5]}, 0.5).luck("a", "b") is None


def test_seeds_to_show_follow_from_either_noise() -> None:
    groups = Moments((1.0, 1.0), (5, 5))
    once = Comparison(0.0, 1.0, 8.0, 5, 0.5, Levels(0.05, 0.1), moments=groups)
    assert once.seeds_to_show(1.0, "difference") == 17, "Cohen 1988: two groups, d = 1"
    assert not_none(once.seeds_to_show(1.0, "difference", Looks((6, 10, 30), 1.5))) > 10


def test_fifty_names_with_a_thousand_seeds_take_less_than_a_second() -> None:
    random = np.random.default_rng(0)
    scores = {f"n{k}": dict(enumerate(random.normal(size=1000).tolist())) for k in range(50)}
    started = time.process_time()
    table = league(scores, 0.5)
    assert len(table.letters) == 50
    assert time.process_time() - started < 1.0
