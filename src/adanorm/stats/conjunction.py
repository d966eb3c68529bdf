"""Several comparisons combined: families, counts of data sets, one estimate, leagues."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from statistics import fmean
from string import ascii_letters
from typing import TypeAlias

import numpy as np

from adanorm.stats.comparison import (
    Comparison,
    Group,
    SeedScores,
    compare_gaps,
    compare_groups,
    groups_of,
    paired_first,
)
from adanorm.stats.sequential import Looks, last_look
from adanorm.stats.variance import Scores, TaskVariance

Two: TypeAlias = tuple[str, str]


def partial_conjunction(ps: Sequence[float], at_least: int) -> float:
    """Return p of the test that a hypothesis is true on `at_least` data sets or more.

    `ps`: by data set. The largest len(ps) - at_least + 1 of independent p-values, combined after
    Fisher (Benjamini & Heller 2008). For all data sets: the largest, an intersection-union test
    (Berger 1982), without any correction.
    """
    from scipy.special import chdtrc

    assert 1 <= at_least <= len(ps), "checked with the claims"
    largest = sorted(ps)[at_least - 1 :]
    return float(chdtrc(2 * len(largest), -2 * np.log(largest).sum()))


def count_shown(ps: Sequence[float], significance: float) -> int:
    """Return on at least how many data sets a hypothesis is shown to be true; perhaps 0."""
    for count in range(len(ps), 0, -1):
        if partial_conjunction(ps, count) <= significance:
            return count
    return 0


def corrected(ps: Sequence[float]) -> list[float]:
    """Return a family's p-values, corrected for their number (Holm 1979), in the same order."""
    values = np.asarray(ps, dtype=float)
    order = np.argsort(values)
    count = len(values)
    adjusted = np.empty(count)
    adjusted[order] = np.minimum(
        np.maximum.accumulate((count - np.arange(count)) * values[order]), 1
    )
    return adjusted.tolist()


def in_family(comparisons: Sequence[Comparison | None]) -> list[Comparison | None]:
    """Return the comparisons with p corrected over all of them.

    None stays None and counts as p = 1.
    """
    ps = corrected([1.0 if comparison is None else comparison.p for comparison in comparisons])
    pairs = zip(comparisons, ps, strict=True)
    return [comparison and replace(comparison, family_p=p) for comparison, p in pairs]


def pooled(comparisons: Sequence[Comparison]) -> Comparison:
    """Return the mean gap of comparisons with one unit and one margin, all with the same weight.

    Degrees of freedom: Welch (1938) and Satterthwaite (1946). Weights by variances of three seeds
    would favor comparisons whose variance is too small by chance. Raises ValueError if there are no
    comparisons, if one is None, or if they differ in margin, level or the levels of a look.
    """
    if not comparisons or None in comparisons:
        wrong = [*comparisons]
        raise ValueError(f"comparisons={wrong}: must be one or more, and none of them None")
    first = comparisons[0]
    for comparison in comparisons:
        for name in ("margin", "level", "levels"):
            values = getattr(first, name), getattr(comparison, name)
            if values[0] != values[1]:
                raise ValueError(f"{name} {values[0]} and {values[1]}: pool what has one {name}")
    variances = np.array([comparison.error**2 for comparison in comparisons])
    dfs = np.array([comparison.df for comparison in comparisons])
    seeds = sum(comparison.seeds for comparison in comparisons)
    return Comparison(
        gap=fmean(comparison.gap for comparison in comparisons),
        sd=float(np.sqrt(seeds * variances.sum())) / len(comparisons),
        df=float(variances.sum() ** 2 / (variances**2 / dfs).sum()),
        seeds=seeds,
        margin=first.margin,
        levels=first.levels,
        level=first.level,
        design=first.design,
    )


def significantly_best(variance: TaskVariance, significance: float) -> str | None:
    """Return the norm that beats all others of a task by corrected moderated tests.

    None if none does.
    """
    scores = variance.scores
    if len(scores) < 2 or not all(scores.values()):
        return None
    best = max(scores, key=lambda norm: fmean(scores[norm].values()))
    comparisons = []
    for norm in scores.keys() - {best}:
        spread = variance.of_difference(norm, best)
        if spread is None:
            return None
        gaps = variance.gaps(norm, best)
        comparisons.append(compare_gaps(gaps, spread=spread, level=significance))
    signs = {comparison.sign for comparison in in_family(comparisons) if comparison}
    return best if signs <= {"ahead"} else None


def sign_test(gaps: Sequence[float]) -> tuple[int, int, float]:
    """Return wins, losses and the two-sided p of the sign test, which leaves ties out."""
    from scipy.special import bdtr  # importing scipy.stats takes a second

    wins = sum(gap > 0 for gap in gaps)
    losses = sum(gap < 0 for gap in gaps)
    one_sided = float(bdtr(min(wins, losses), wins + losses, 0.5))
    return wins, losses, min(1.0, 2 * one_sided)


def fisher_test(events: Sequence[int], trials: Sequence[int]) -> float:
    """Return the two-sided p of Fisher's exact test that two shares of events are equal.

    It sums the chance of every split of the events that is no more likely than theirs.
    """
    first, second = trials
    total = sum(events)
    least, most = max(0, total - second), min(first, total)  # events of the first
    ways = {}
    for count in range(least, most + 1):
        ways[count] = math.comb(first, count) * math.comb(second, total - count)
    theirs = ways[events[0]]
    unlikely = [number for number in ways.values() if number <= theirs]
    return sum(unlikely) / sum(ways.values())


@dataclass(frozen=True)
class League:
    """Names by mean score, the best first.

    This order is no rank: `letters` shows which are told apart. `scores` are by name and seed;
    larger is better. `pairs` has the comparison of every two names, the better mean first, with p
    corrected over all pairs (Holm 1979); None if their shared seeds show no noise. With `looks`,
    the pairs are read more than once.
    """

    scores: Scores
    pairs: Mapping[Two, Comparison | None]
    looks: Looks | None = None

    def comparison(self, first: str, second: str) -> Comparison | None:
        """Return the comparison of the first name with the second, or None."""
        if (first, second) in self.pairs:
            return self.pairs[first, second]
        pair = self.pairs[second, first]
        return pair and pair.reverse

    def chance(self, first: str, second: str) -> float:
        """Return P(first > second): the share of shared seeds where the first is better.

        With fewer than two shared seeds, the share of all pairs of one score of each name. A tie
        counts half. It is the probability of outperforming (Bouthillier et al. 2021), or of
        improvement (Agarwal et al. 2021).
        """
        ours, theirs, shared = paired_first(self._seeded[first], self._seeded[second])
        if shared > 1:
            gaps = ours.scores[:shared] - theirs.scores[:shared]
            wins = (np.sign(gaps) + 1) / 2
            return float(wins.mean())
        ordered = np.sort(theirs.scores)
        below = np.searchsorted(ordered, ours.scores, side="left")
        not_above = np.searchsorted(ordered, ours.scores, side="right")
        halves = int(below.sum() + not_above.sum())  # of a win
        pairs = len(below) * len(ordered)
        return halves / (2 * pairs)

    @cached_property
    def _seeded(self) -> dict[str, Group]:
        return dict(zip(self.scores, groups_of([*self.scores.values()], None), strict=True))

    def luck(self, first: str, second: str) -> int | None:
        """Return n if one name wins every time, which happens once in n without a difference.

        With k shared seeds in k of k: once in 2^k. Without, if all of its m scores are better than
        all n others: once in (m + n) choose m. None otherwise.
        """
        if self.chance(first, second) not in (0.0, 1.0):
            return None
        ours = self.scores[first].keys()
        theirs = self.scores[second].keys()
        shared = len(ours & theirs)
        if shared > 1:
            return 2**shared
        scores = len(ours) + len(theirs)
        return math.comb(scores, len(ours))

    @cached_property
    def told_apart(self) -> list[Two]:
        """The pairs in which one name is ahead, by the corrected p."""
        apart = []
        for two, comparison in self.pairs.items():
            if comparison and comparison.sign != "not told apart":
                apart.append(two)
        return apart

    @cached_property
    def groups(self) -> list[list[str]]:
        """The largest sets of names in which no two are told apart; a name may be in several.

        By insertion and absorption (Piepho 2004): each pair that is told apart splits the groups
        that have both names. Raises ValueError if there are more groups than letters.
        """
        order = [*self.scores]
        groups = [frozenset(self.scores)]
        most = len(ascii_letters)
        for two in self.told_apart:
            split = set()
            for group in groups:
                split |= {group - {name} for name in two} if group >= {*two} else {group}
            groups = [group for group in split if not any(map(group.__lt__, split))]
            if len(groups) > most:
                raise ValueError(f"{len(order)} names fall into over {most} groups: compare fewer")
        in_order = [sorted(group, key=order.index) for group in groups]
        return sorted(in_order, key=lambda group: [*map(order.index, group)])

    @cached_property
    def letters(self) -> dict[str, str]:
        """The letters of each name's groups: two names share one unless they are told apart."""
        letters = dict.fromkeys(self.scores, "")
        for letter, group in zip(ascii_letters, self.groups, strict=False):
            for name in group:
                letters[name] += letter
        return letters

    @property
    def next_told_apart(self) -> list[Two]:
        """The pairs that the next seed or look would add, with today's means and deviations.

        A pair that has had its last look is not among them.
        """
        after = {two: self._with_next_seed(pair) for two, pair in self.pairs.items()}
        later = in_family([*after.values()])
        grown = replace(self, pairs=dict(zip(self.pairs, later, strict=True)))
        known = set(self.told_apart)
        added = []
        for two in grown.told_apart:
            has_ended = after[two] is self.pairs[two]
            if two not in known and not has_ended:
                added.append(two)
        return added

    def _with_next_seed(self, comparison: Comparison | None) -> Comparison | None:
        if comparison is None:
            return None
        if self.looks is None:
            return comparison.after(comparison.seeds + 1, comparison.df + 1, comparison.levels)
        for look in self.looks.after:
            if look > comparison.seeds:
                return comparison.after(look, look - 1, self.looks.levels(look))
        return comparison


def league(
    scores: Mapping[str, SeedScores],
    margin: float,
    *,
    paired: bool | None = None,
    level: float = 0.05,
    looks: Looks | None = None,
) -> League:
    """Return the league of scores by name and seed, or lists by name.

    `compare` compares every two names; with `looks`, the scores of the last look that both have
    reached, at its levels. Larger scores are better. `margin`, `paired` and the errors are those
    of `compare`, and ValueError for a name without scores; ASSUMPTIONS has what is taken for granted.
    """
    for name, entry in scores.items():
        if not len(entry):
            raise ValueError(f"{name}: has no scores")
    groups = dict(zip(scores, groups_of([*scores.values()], paired), strict=True))
    means = {name: group.by_seed for name, group in groups.items()}

    def compare_two(first: str, second: str) -> Comparison | None:
        ours = groups[first]
        theirs = groups[second]
        levels = None
        if looks:
            size = min(len(ours.seeds), len(theirs.seeds))
            if paired:
                size = paired_first(ours, theirs)[2]
            look = last_look(looks.after, size)
            if look is None:
                return None
            levels = looks.levels(look)
            ours, theirs = at_look(ours, theirs, look)
        only_shared = paired is True
        return compare_groups(
            ours, theirs, margin, only_shared=only_shared, level=level, levels=levels
        )

    return league_of(means, compare_two, looks)


def at_look(ours: Group, theirs: Group, look: int) -> tuple[Group, Group]:
    """Return the scores of the first `look` seeds of each, those that both have going first."""
    ours, theirs, _ = paired_first(ours, theirs)
    return ours.take(slice(look)), theirs.take(slice(look))


def league_of(
    scores: Scores, compare_two: Callable[[str, str], Comparison | None], looks: Looks | None = None
) -> League:
    """Return the league of scores; the function `compare_two` compares two names."""
    means = {name: fmean(by_seed.values()) for name, by_seed in scores.items()}
    best_first = sorted(means, key=means.__getitem__, reverse=True)
    pairs = list(combinations(best_first, 2))
    comparisons = in_family([compare_two(first, second) for first, second in pairs])
    return League(
        scores={name: scores[name] for name in best_first},
        pairs=dict(zip(pairs, comparisons, strict=True)),
        looks=looks,
    )
