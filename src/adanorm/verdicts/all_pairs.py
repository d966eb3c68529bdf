"""Several names on one task: every two compared, and the groups that cannot be told apart."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from statistics import fmean
from string import ascii_letters
from typing import TypeAlias

from adanorm.verdicts.comparison import Comparison, compare
from adanorm.verdicts.conjunction import in_family
from adanorm.verdicts.sequential import Looks
from adanorm.verdicts.variance import Scores

Two: TypeAlias = tuple[str, str]


@dataclass(frozen=True)
class League:
    """Names by their mean scores, the best first, which is no rank: `letters` says who is told apart.

    `scores` are by name and seed, larger ones being better. `pairs` has the comparison of every two, the
    better mean first, with p corrected over all of them (Holm 1979); None where the seeds that they share
    tell no noise. With `looks` the pairs are read more than once.
    """

    scores: Scores
    pairs: Mapping[Two, Comparison | None]
    looks: Looks | None = None

    def comparison(self, first: str, second: str) -> Comparison | None:
        """Return by how much the first name is better than the second."""
        if (first, second) in self.pairs:
            return self.pairs[first, second]
        reverse = self.pairs[second, first]
        return reverse and replace(reverse, gap=-reverse.gap)

    def chance(self, first: str, second: str) -> float | None:
        """Return P(first > second): the share of shared seeds with which the first is better, ties half.

        The probability of outperforming of Bouthillier et al. 2021. None without a shared seed.
        """
        ours, others = self.scores[first], self.scores[second]
        wins = [
            (ours[seed] > others[seed]) + (ours[seed] == others[seed]) / 2 for seed in ours & others.keys()
        ]
        return fmean(wins) if wins else None

    @property
    def told_apart(self) -> list[Two]:
        """The pairs whose first name is ahead or behind, by the corrected p."""
        return [two for two, one in self.pairs.items() if one and one.sign != "not told apart"]

    @cached_property
    def groups(self) -> list[list[str]]:
        """The largest sets of names in which no two are told apart; a name may be in several.

        By insertion and absorption (Piepho 2004): each pair that is told apart splits the groups that hold
        both. Raises ValueError where there are more groups than letters.
        """
        order, groups = [*self.scores], [frozenset(self.scores)]
        for two in self.told_apart:
            split = {group - {name} if group >= {*two} else group for group in groups for name in two}
            groups = [group for group in split if not any(group < other for other in split)]
            if len(groups) > len(ascii_letters):
                raise ValueError(
                    f"{len(order)} names fall into over {len(ascii_letters)} groups: compare fewer"
                )
        places = sorted(sorted(map(order.index, group)) for group in groups)
        return [[order[place] for place in group] for group in places]

    @cached_property
    def letters(self) -> dict[str, str]:
        """The letters of each name's groups: two names share one unless they are told apart."""
        lettered = list(zip(ascii_letters, self.groups, strict=False))
        return {name: "".join(letter for letter, group in lettered if name in group) for name in self.scores}

    @property
    def next_told_apart(self) -> list[Two]:
        """The pairs that one more seed of each name would tell apart too, with today's mean and deviation.

        With `looks`, that the next look would.
        """
        later = in_family([one and self._with_next_seed(one) for one in self.pairs.values()])
        told = replace(self, pairs=dict(zip(self.pairs, later, strict=True))).told_apart
        return [two for two in told if two not in self.told_apart]

    def _with_next_seed(self, one: Comparison) -> Comparison:
        if self.looks is None:
            return replace(one, seeds=one.seeds + 1, df=one.df + 1)
        seeds = next((look for look in self.looks.after if look > one.seeds), None)
        return replace(one, seeds=seeds, df=seeds - 1, levels=self.looks.levels(seeds)) if seeds else one


def league(scores: Scores, margin: float, *, level: float = 0.05) -> League:
    """Return the league of scores by name and seed, each two names compared as `compare` does.

    Larger scores are better, and a difference below `margin` does not matter. Raises ValueError for a margin
    that is not above 0.
    """
    return league_of(scores, lambda one, two: compare(scores[one], scores[two], margin, level=level))


def league_of(
    scores: Scores, compared: Callable[[str, str], Comparison | None], looks: Looks | None = None
) -> League:
    """Return the league of scores whose pairs are `compared` by a function of two names."""
    ordered = dict(sorted(scores.items(), key=lambda of_name: -fmean(of_name[1].values())))
    pairs = list(combinations(ordered, 2))
    comparisons = in_family([compared(*two) for two in pairs])
    return League(ordered, dict(zip(pairs, comparisons, strict=True)), looks)
