"""Several comparisons combined: families, counts of data sets, one estimate over tasks, and leagues."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from statistics import fmean
from string import ascii_letters
from typing import TypeAlias

import numpy as np

from adanorm.stats.comparison import Comparison, SeedScores, by_seed, compare, compare_gaps
from adanorm.stats.sequential import Levels, Looks
from adanorm.stats.variance import Scores, TaskVariance

Two: TypeAlias = tuple[str, str]


def partial_conjunction(ps: Sequence[float], at_least: int) -> float:
    """Return p of the test that a hypothesis is true on `at_least` data sets or more; `ps`: by data set.

    The largest len(ps) - at_least + 1 of independent p-values, combined after Fisher (Benjamini &
    Heller 2008). For all data sets: the largest, an intersection-union test (Berger 1982), without
    any correction.
    """
    from scipy.special import chdtrc

    assert 1 <= at_least <= len(ps), "checked with the claims"
    largest = sorted(ps)[at_least - 1 :]
    return float(chdtrc(2 * len(largest), -2 * np.log(largest).sum()))


def count_shown(ps: Sequence[float], level: float) -> int:
    """Return on at least how many data sets a hypothesis is shown to be true; perhaps 0."""
    counts = (count for count in range(len(ps), 0, -1) if partial_conjunction(ps, count) <= level)
    return next(counts, 0)


def corrected(ps: Sequence[float]) -> list[float]:
    """Return the p-values of a family, corrected for their number (Holm 1979), in the same order."""
    values = np.asarray(ps, dtype=float)
    order, count = np.argsort(values), len(values)
    adjusted = np.empty(count)
    adjusted[order] = np.minimum(
        np.maximum.accumulate((count - np.arange(count)) * values[order]), 1
    )
    return adjusted.tolist()


def in_family(comparisons: Sequence[Comparison | None]) -> list[Comparison | None]:
    """Return the comparisons with p corrected over all of them; None stays None and counts as p = 1."""
    ps = corrected([1.0 if one is None else one.p for one in comparisons])
    return [one and replace(one, family_p=p) for one, p in zip(comparisons, ps, strict=True)]


def pooled(comparisons: Sequence[Comparison]) -> Comparison:
    """Return the mean gap of comparisons with one unit and one margin, all with the same weight.

    Degrees of freedom: Welch (1938) and Satterthwaite (1946). Weights by variances of three seeds
    would favor comparisons whose variance is too small by chance. The levels are the strictest of
    all looks. Raises ValueError if there are no comparisons, or if one is None.
    """
    if not comparisons or None in comparisons:
        raise ValueError(
            f"comparisons={[*comparisons]}: must be one or more, and none of them None"
        )
    errors, dfs = np.array([(one.error**2, one.df) for one in comparisons]).T
    seeds = sum(one.seeds for one in comparisons)
    return Comparison(
        gap=fmean(one.gap for one in comparisons),
        sd=float(np.sqrt(seeds * errors.sum())) / len(comparisons),
        df=float(errors.sum() ** 2 / (errors**2 / dfs).sum()),
        seeds=seeds,
        margin=comparisons[0].margin,
        levels=Levels(
            *(min(levels) for levels in zip(*(one.levels for one in comparisons), strict=True))
        ),
        level=comparisons[0].level,
    )


def significantly_best(variance: TaskVariance, level: float) -> str | None:
    """Return the norm that beats all others of a task by corrected moderated tests; None if none does."""
    scores = variance.scores
    if len(scores) < 2 or not all(scores.values()):
        return None
    best = max(scores, key=lambda norm: fmean(scores[norm].values()))
    comparisons = []
    for other in scores.keys() - {best}:
        spread = variance.of_difference(other, best)
        comparisons.append(
            spread and compare_gaps(variance.gaps(other, best), spread=spread, level=level)
        )
    return (
        best
        if all(one is not None and one.sign == "ahead" for one in in_family(comparisons))
        else None
    )


def sign_test(gaps: Sequence[float]) -> tuple[int, int, float]:
    """Return wins, losses and the two-sided p of the sign test, which leaves ties out."""
    from scipy.stats import binomtest

    wins, losses = sum(gap > 0 for gap in gaps), sum(gap < 0 for gap in gaps)
    return wins, losses, float(binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0


@dataclass(frozen=True)
class League:
    """Names by mean score, the best first. This order is no rank: `letters` shows which are told apart.

    `scores` are by name and seed; larger is better. `pairs` has the comparison of every two names,
    the better mean first, with p corrected over all pairs (Holm 1979); None if their shared seeds
    show no noise. With `looks`, the pairs are read more than once.
    """

    scores: Scores
    pairs: Mapping[Two, Comparison | None]
    looks: Looks | None = None

    def comparison(self, first: str, second: str) -> Comparison | None:
        """Return the comparison of the first name with the second, or None."""
        if (first, second) in self.pairs:
            return self.pairs[first, second]
        reverse = self.pairs[second, first]
        return reverse and replace(reverse, gap=-reverse.gap)

    def chance(self, first: str, second: str) -> float | None:
        """Return P(first > second): the share of shared seeds where the first is better; a tie counts half.

        It is the probability of outperforming (Bouthillier et al. 2021). None without a shared
        seed.
        """
        ours, others = self.scores[first], self.scores[second]
        wins = [(ours[s] > others[s]) + (ours[s] == others[s]) / 2 for s in ours & others.keys()]
        return fmean(wins) if wins else None

    @property
    def told_apart(self) -> list[Two]:
        """The pairs in which one name is ahead, by the corrected p."""
        return [two for two, one in self.pairs.items() if one and one.sign != "not told apart"]

    @cached_property
    def groups(self) -> list[list[str]]:
        """The largest sets of names in which no two are told apart; a name may be in several.

        By insertion and absorption (Piepho 2004): each pair that is told apart splits the groups
        that have both names. Raises ValueError if there are more groups than letters.
        """
        order, groups, most = [*self.scores], [frozenset(self.scores)], len(ascii_letters)
        for two in self.told_apart:
            split = {
                group - {name} if group >= {*two} else group for group in groups for name in two
            }
            groups = [group for group in split if not any(group < other for other in split)]
            if len(groups) > most:
                raise ValueError(f"{len(order)} names fall into over {most} groups: compare fewer")
        positions = sorted(sorted(map(order.index, group)) for group in groups)
        return [[order[position] for position in group] for group in positions]

    @cached_property
    def letters(self) -> dict[str, str]:
        """The letters of each name's groups: two names share one unless they are told apart."""
        lettered = list(zip(ascii_letters, self.groups, strict=False))
        return {
            name: "".join(letter for letter, group in lettered if name in group)
            for name in self.scores
        }

    @property
    def next_told_apart(self) -> list[Two]:
        """The pairs that the next seed or look would tell apart too, with today's means and deviations."""
        later = in_family([one and self._with_next_seed(one) for one in self.pairs.values()])
        apart = replace(self, pairs=dict(zip(self.pairs, later, strict=True))).told_apart
        return [two for two in apart if two not in self.told_apart]

    def _with_next_seed(self, one: Comparison) -> Comparison:
        if self.looks is None:
            return replace(one, seeds=one.seeds + 1, df=one.df + 1)
        seeds = next((look for look in self.looks.after if look > one.seeds), None)
        return (
            replace(one, seeds=seeds, df=seeds - 1, levels=self.looks.levels(seeds))
            if seeds
            else one
        )


def league(scores: Mapping[str, SeedScores], margin: float, *, level: float = 0.05) -> League:
    """Return the league of scores by name and seed, or lists by name; `compare` compares every two names.

    Larger scores are better. `margin` and the errors are those of `compare`.
    """
    seeded = {name: by_seed(of_name) for name, of_name in scores.items()}
    return league_of(
        seeded, lambda one, two: compare(scores[one], scores[two], margin, level=level)
    )


def league_of(
    scores: Scores, compare_two: Callable[[str, str], Comparison | None], looks: Looks | None = None
) -> League:
    """Return the league of scores; the function `compare_two` compares two names."""
    ordered = dict(sorted(scores.items(), key=lambda of_name: -fmean(of_name[1].values())))
    pairs = list(combinations(ordered, 2))
    comparisons = in_family([compare_two(*two) for two in pairs])
    return League(ordered, dict(zip(pairs, comparisons, strict=True)), looks)
