"""Several comparisons combined: families, counts of data sets, one estimate, leagues."""

from collections.abc import Callable, Collection, Mapping, Sequence
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
    """Return p of the test that a hypothesis is true on `at_least` data sets or more.

    `ps`: by data set. The largest len(ps) - at_least + 1 of independent p-values, combined after
    Fisher (Benjamini & Heller 2008). For all data sets: the largest, an intersection-union test
    (Berger 1982), without any correction.
    """
    from scipy.special import chdtrc

    assert 1 <= at_least <= len(ps), "checked with the claims"
    largest = sorted(ps)[at_least - 1 :]
    return float(chdtrc(2 * len(largest), -2 * np.log(largest).sum()))


def count_shown(ps: Sequence[float], level: float) -> int:
    """Return on at least how many data sets a hypothesis is shown to be true; perhaps 0."""
    counts = (
        count
        for count in range(
            len(ps),
            0,
            -1,
        )
        if partial_conjunction(ps, count) <= level
    )
    return next(counts, 0)


def corrected(ps: Sequence[float]) -> list[float]:
    """Return a family's p-values, corrected for their number (Holm 1979), in the same order."""
    values = np.asarray(ps, dtype=float)
    order, count = np.argsort(values), len(values)
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
    would favor comparisons whose variance is too small by chance. The levels are the strictest of
    all looks. Raises ValueError if there are no comparisons, or if one is None.
    """
    if not comparisons or None in comparisons:
        wrong = [*comparisons]
        raise ValueError(f"comparisons={wrong}: must be one or more, and none of them None")
    variances = np.array([comparison.error**2 for comparison in comparisons])
    dfs = np.array([comparison.df for comparison in comparisons])
    seeds = sum(comparison.seeds for comparison in comparisons)
    levels = [comparison.levels for comparison in comparisons]
    return Comparison(
        gap=fmean(comparison.gap for comparison in comparisons),
        sd=float(np.sqrt(seeds * variances.sum())) / len(comparisons),
        df=float(variances.sum() ** 2 / (variances**2 / dfs).sum()),
        seeds=seeds,
        margin=comparisons[0].margin,
        levels=Levels(
            min(level.difference for level in levels),
            min(level.equivalence for level in levels),
        ),
        level=comparisons[0].level,
    )


def significantly_best(variance: TaskVariance, level: float) -> str | None:
    """Return the norm that beats all others of a task by corrected moderated tests.

    None if none does.
    """
    scores = variance.scores
    if len(scores) < 2 or not all(scores.values()):
        return None
    best = max(scores, key=lambda norm: fmean(scores[norm].values()))
    comparisons: list[Comparison | None] = []
    for norm in scores.keys() - {best}:
        spread = variance.of_difference(norm, best)
        if spread is None:
            return None
        gaps = variance.gaps(norm, best)
        comparisons.append(
            compare_gaps(
                gaps,
                spread=spread,
                level=level,
            )
        )
    beaten = [comparison for comparison in in_family(comparisons) if comparison]
    return best if all(comparison.sign == "ahead" for comparison in beaten) else None


def sign_test(gaps: Sequence[float]) -> tuple[int, int, float]:
    """Return wins, losses and the two-sided p of the sign test, which leaves ties out."""
    from scipy.stats import binomtest

    wins = sum(gap > 0 for gap in gaps)
    losses = sum(gap < 0 for gap in gaps)
    p = float(binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0
    return wins, losses, p


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
        reverse = self.pairs[second, first]
        return reverse and replace(reverse, gap=-reverse.gap)

    def chance(self, first: str, second: str) -> float | None:
        """Return P(first > second): the share of shared seeds where the first is better.

        A tie counts half. It is the probability of outperforming (Bouthillier et al. 2021). None
        without a shared seed.
        """
        wins = []
        for seed, score in self.scores[first].items():
            if seed in self.scores[second]:
                gap = score - self.scores[second][seed]
                wins.append(0.5 if gap == 0 else float(gap > 0))
        return fmean(wins) if wins else None

    @property
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
        order, groups, most = [*self.scores], [frozenset(self.scores)], len(ascii_letters)
        for two in self.told_apart:
            split = set()
            for group in groups:
                split |= {group - {name} for name in two} if group >= {*two} else {group}
            groups = [group for group in split if not _is_part(group, split)]
            if len(groups) > most:
                raise ValueError(f"{len(order)} names fall into over {most} groups: compare fewer")
        in_order = [sorted(group, key=order.index) for group in groups]
        return sorted(in_order, key=lambda group: [*map(order.index, group)])

    @cached_property
    def letters(self) -> dict[str, str]:
        """The letters of each name's groups: two names share one unless they are told apart."""
        letters = dict.fromkeys(self.scores, "")
        for letter, group in zip(
            ascii_letters,
            self.groups,
            strict=False,
        ):
            for name in group:
                letters[name] += letter
        return letters

    @property
    def next_told_apart(self) -> list[Two]:
        """The pairs that the next seed or look would add, with today's means and deviations."""
        later = in_family([self._with_next_seed(comparison) for comparison in self.pairs.values()])
        apart = replace(
            self,
            pairs=dict(
                zip(
                    self.pairs,
                    later,
                    strict=True,
                )
            ),
        ).told_apart
        return [two for two in apart if two not in self.told_apart]

    def _with_next_seed(self, comparison: Comparison | None) -> Comparison | None:
        if comparison is None:
            return None
        if self.looks is None:
            return replace(
                comparison,
                seeds=comparison.seeds + 1,
                df=comparison.df + 1,
            )
        for look in self.looks.after:
            if look > comparison.seeds:
                levels = self.looks.levels(look)
                return replace(
                    comparison,
                    seeds=look,
                    df=look - 1,
                    levels=levels,
                )
        return comparison


def _is_part(group: frozenset[str], groups: Collection[frozenset[str]]) -> bool:
    return any(group < larger for larger in groups)


def league(scores: Mapping[str, SeedScores], margin: float, *, level: float = 0.05) -> League:
    """Return the league of scores by name and seed, or lists by name.

    `compare` compares every two names. Larger scores are better. `margin` and the errors are those
    of `compare`.
    """
    seeded = {name: by_seed(its_scores) for name, its_scores in scores.items()}

    def compare_two(first: str, second: str) -> Comparison | None:
        return compare(
            scores[first],
            scores[second],
            margin,
            level=level,
        )

    return league_of(seeded, compare_two)


def league_of(
    scores: Scores, compare_two: Callable[[str, str], Comparison | None], looks: Looks | None = None
) -> League:
    """Return the league of scores; the function `compare_two` compares two names."""
    order = sorted(scores, key=lambda name: -fmean(scores[name].values()))
    ordered = {name: scores[name] for name in order}
    pairs = list(combinations(ordered, 2))
    comparisons = in_family([compare_two(*two) for two in pairs])
    return League(
        ordered,
        dict(zip(pairs, comparisons, strict=True)),
        looks,
    )
