"""Leagues against definitions written out: groups by trying every set, p and the next seed by SciPy."""

import sys
from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from adanorm.stats.comparison import SeedScores
from adanorm.stats.conjunction import corrected
from adanorm.verdicts import League, Looks, compare, league
from adanorm.verdicts.task_league import league_by_plan, plan_for_scores
from tests.verdicts import not_none


def drawn(seed: int, *, names: int = 6, seeds: int = 6) -> dict[str, dict[int, float]]:
    source = np.random.default_rng(seed)
    scores = source.normal(size=(names, seeds)) + source.choice([0.0, 3.0, 5.0], size=(names, 1))
    return {f"n{name}": dict(enumerate(row.tolist(), 1)) for name, row in enumerate(scores)}


def largest_groups(table: League) -> set[frozenset[str]]:
    apart = {frozenset(two) for two in table.told_apart}
    every = [frozenset(s) for n in range(1, 7) for s in combinations(table.scores, n)]
    together = [group for group in every if not any(two <= group for two in apart)]
    return {group for group in together if not any(group < other for other in together)}


@pytest.mark.parametrize("seed", range(8))
def test_groups_are_the_largest_sets_without_two_norms_told_apart(seed: int) -> None:
    table = league(drawn(seed), 0.5)
    assert {*map(frozenset, table.groups)} == largest_groups(table)
    for two in combinations(table.scores, 2):
        share = {*table.letters[two[0]]} & {*table.letters[two[1]]}
        assert bool(share) == (two not in table.told_apart)


def test_pairs_are_those_of_compare_corrected_together_and_one_more_seed_is_a_t_test_of_n_plus_one() -> (
    None
):
    scores = drawn(3)
    table = league(scores, 0.5)
    assert {*map(frozenset, table.pairs)} == {*map(frozenset, combinations(scores, 2))}
    ps, later = [], []
    for first, second in table.pairs:
        alone = not_none(compare(scores[first], scores[second], 0.5))
        assert not_none(table.comparison(first, second)).interval == pytest.approx(alone.interval)
        gaps = np.subtract([*scores[first].values()], [*scores[second].values()])
        ps.append(stats.ttest_1samp(gaps, 0).pvalue)
        later.append(2 * stats.t.sf(abs(gaps.mean()) / (gaps.std(ddof=1) / 7**0.5), 6))
    now, then = (dict(zip(table.pairs, corrected(own), strict=True)) for own in (ps, later))
    assert table.told_apart == [two for two in table.pairs if now[two] < 0.05]
    assert table.next_told_apart == [two for two in table.pairs if then[two] < 0.05 <= now[two]]


def test_a_chance_counts_half_of_the_ties_and_pairs_without_two_shared_seeds_are_not_compared() -> (
    None
):
    table = league(
        {"a": {1: 1.0, 2: 2.0, 3: 3.0, 5: 9.0}, "b": {1: 1.0, 2: 1.0, 3: 4.5, 4: 9.0}}, 0.1
    )
    assert table.chance("a", "b") == table.chance("b", "a") == 0.5
    gaps = [not_none(table.comparison(*two)).gap for two in (("a", "b"), ("b", "a"))]
    assert gaps == pytest.approx([-1 / 8, 1 / 8])
    few = {"a": {1: 1.0, 2: 2.0}, "b": {1: 2.0, 3: 1.0}}
    assert league(few, 0.1, paired=True).pairs["a", "b"] is None
    assert not_none(league(few, 0.1).pairs["a", "b"]).design == "independent"
    lists: dict[str, SeedScores] = {"a": np.array([1.0, 2.0, 3.0]), "b": [1.0, 1.0, 4.5]}
    seeded = league({"a": {0: 1.0, 1: 2.0, 2: 3.0}, "b": {0: 1.0, 1: 1.0, 2: 4.5}}, 0.1)
    assert league(lists, 0.1, paired=True).pairs == seeded.pairs
    assert not_none(league(lists, 0.1).pairs["b", "a"]).design == "independent"
    assert league(lists, 0.1).chance("b", "a") == pytest.approx((1 + 1 + 6) / 18)


def test_names_that_make_more_groups_than_letters_are_refused() -> None:
    source = np.random.default_rng(0)
    base = source.normal(scale=9, size=(5, 30))
    scores = {f"{m}{k}": dict(enumerate((row + 5 * k + source.normal(scale=0.1, size=30)).tolist()))
              for m, row in enumerate(base) for k in range(3)}  # fmt: skip
    with pytest.raises(ValueError, match="15 names fall into over 52 groups: compare fewer"):
        _ = league(scores, 0.5).letters


def test_a_plan_reads_the_scores_of_its_last_look_at_the_level_of_that_look() -> None:
    table = league_by_plan(drawn(1, names=2, seeds=5), plan_for_scores("small", 0.5))
    one = not_none(table.pairs[next(iter(table.pairs))])
    assert (one.seeds, table.looks and table.looks.after) == (3, (3, 6, 10))
    assert one.levels.difference < 0.01, "the first of three looks"
    first = league_by_plan(drawn(1, names=2, seeds=3), plan_for_scores("first", 0.5))
    assert not_none(next(iter(first.pairs.values()))).levels.difference == 0.05, (
        "three seeds are read once"
    )


def calls_of(task: Callable[[], object]) -> int:
    """Return how many Python functions a task calls."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        task()
    finally:
        sys.setprofile(None)
    return calls


def test_a_league_of_more_seeds_takes_no_more_calls() -> None:
    def every_chance(seeds: int) -> None:
        table = league(drawn(0, names=3, seeds=seeds), 0.5)
        for two in table.pairs:
            table.chance(*two)

    every_chance(8)  # imports SciPy
    assert calls_of(lambda: every_chance(800)) == calls_of(lambda: every_chance(8))


@pytest.mark.parametrize("looks", [None, Looks((3, 5), 1.5)])
def test_the_order_of_seeds_changes_no_digit(looks: Looks | None) -> None:
    scores = drawn(1, names=3, seeds=7)
    del scores["n2"][3]
    shuffled = {}
    for name, by_seed in scores.items():
        seeds = np.random.default_rng(len(by_seed)).permutation([*by_seed])
        shuffled[name] = {int(seed): by_seed[seed] for seed in seeds}
    assert league(shuffled, 0.5, looks=looks).pairs == league(scores, 0.5, looks=looks).pairs
