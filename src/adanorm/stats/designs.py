"""The gap of two groups of scores, whose seeds are blocks, are not, or are for some scores."""

import math
from dataclasses import dataclass, replace
from typing import Literal

from adanorm.stats.sequential import Numbers

Design = Literal["paired", "independent"]
Method = Literal["paired", "independent", "partly paired"]  # by what the two groups share


@dataclass(frozen=True)
class Moments:
    """The variances and sizes of two groups, of whose scores `shared` pairs have one seed.

    `correlation` is that of these pairs.
    """

    variances: tuple[float, float]
    sizes: tuple[int, int]
    shared: int = 0
    correlation: float = 0.0

    @property
    def gap_sd(self) -> float:
        """The standard deviation of the difference of one score of each group, as they pair."""
        return math.sqrt(max(0.0, sum(self.variances) - 2 * self._covariance))

    @property
    def error(self) -> float:
        """The standard error of the difference of the two means."""
        variance = sum(self._parts)
        if self.shared:
            variance -= 2 * self._covariance * self.shared / (self.sizes[0] * self.sizes[1])
        return math.sqrt(max(0.0, variance))

    @property
    def df(self) -> float:
        """The degrees of freedom: Satterthwaite's for groups that share nothing.

        With shared seeds, between those of the pairs and Satterthwaite's, by the share of scores
        without a partner (Derrick et al. 2017).
        """
        freedom = [size - 1.0 for size in self.sizes]
        whole = sum(self._parts)
        if whole:
            # Of shares, since squares of very small or large variances leave the range of numbers.
            shares = [part / whole for part in self._parts]
            terms = [share**2 / df for share, df in zip(shares, freedom, strict=True)]
            satterthwaite = 1 / sum(terms)
        else:
            satterthwaite = sum(freedom)
        if not self.shared:
            return satterthwaite
        of_pairs = self.shared - 1.0
        alone = sum(self.sizes) - 2 * self.shared
        return of_pairs + (satterthwaite - of_pairs) * alone / sum(self.sizes)

    @property
    def _covariance(self) -> float:
        # The product of both variances may leave the range of numbers.
        first, second = map(math.sqrt, self.variances)
        return self.correlation * first * second

    @property
    def _parts(self) -> tuple[float, float]:
        return self.variances[0] / self.sizes[0], self.variances[1] / self.sizes[1]

    @property
    def reverse(self) -> "Moments":
        """The moments with the second group first."""
        return replace(self, variances=self.variances[::-1], sizes=self.sizes[::-1])

    def grown(self, more: int) -> "Moments":
        """Return the moments with more scores of each group, which share seeds if others do."""
        first, second = self.sizes
        shared = self.shared + more if self.shared else 0
        return replace(self, sizes=(first + more, second + more), shared=shared)


def moments_of(first: Numbers, second: Numbers, shared: int = 0) -> Moments:
    """Return the moments of scores (seeds,); the first `shared` scores have the same seeds.

    Raises ValueError for groups of fewer than two scores.
    """
    if min(len(first), len(second)) < 2:
        raise ValueError(f"{len(first)} and {len(second)} scores: a spread needs two of each")
    correlation = 0.0
    if shared:
        ours = first[:shared]
        ours = ours - ours.mean()
        theirs = second[:shared]
        theirs = theirs - theirs.mean()
        # The product of both squares may leave the range of numbers.
        lengths = math.sqrt(ours @ ours) * math.sqrt(theirs @ theirs)
        if lengths:
            correlation = float(ours @ theirs) / lengths
    return Moments(
        variances=(float(first.var(ddof=1)), float(second.var(ddof=1))),
        sizes=(len(first), len(second)),
        shared=shared,
        correlation=correlation,
    )
