"""Tests that are looked at several times; seeds are counted ahead, never from the gap observed."""

import math
from bisect import bisect_left
from functools import cache
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Numbers: TypeAlias = NDArray[np.float64]
BINS = 100  # of the integration: all looks together have `level` within 1 % of it
NO_LOOK = 1e-9  # the level of a bound that no path crosses
MOST_SEEDS = 2000  # no plan beyond this is one
DRAWS = 4000  # comparisons that are followed: a share of 0.8 of them is known to 0.6 %
Kind = Literal["difference", "equivalence"]


class Levels(NamedTuple):
    """Two-sided nominal levels of one look: of a difference, and of equivalence within the margin.

    A plan that is looked at once has `level` and 2 x `level`: equivalence is two one-sided tests.
    """

    difference: float
    equivalence: float


class Looks(NamedTuple):
    """After which numbers of seeds a comparison is looked at, so that all looks together err at `level`.

    level * (n / last look)^spending of the error is spent by the look after n seeds (power family of Kim &
    DeMets 1987). With `power` a comparison is to close, of seeds that are counted beforehand.
    """

    after: tuple[int, ...]
    spending: float
    level: float = 0.05
    power: float = 0.8

    def levels(self, seeds: int) -> Levels:
        """Return the levels of a look at so many seeds; raises ValueError where the plan has none."""
        if seeds not in self.after:
            raise ValueError(f"{seeds} seeds: the plan has looks after {', '.join(map(str, self.after))}")
        index, levels = self.after.index(seeds), (self.level, 2 * self.level)
        return Levels(*(nominal_levels(self.after, level, self.spending)[index] for level in levels))


def last_look(looks: tuple[int, ...], seeds: int) -> int | None:
    """Return the last look that so many seeds reach, None before the first."""
    return max((look for look in looks if look <= seeds), default=None)


@cache
def nominal_levels(looks: tuple[int, ...], level: float, spending: float) -> tuple[float, ...]:
    """Return the two-sided level of Student's t at each look, a number of seeds from 2 on.

    Together they reject a true hypothesis with probability `level`: exact for normal gaps, up to BINS.
    Raises ValueError for looks, a level or a spending that cannot be.
    """
    if not looks or looks[0] < 2 or [*looks] != sorted({*looks}) or not (0 < level < 1 and spending > 0):
        raise ValueError(f"looks {looks}, level {level:g}, spending {spending:g}: looks rise, from 2 on")
    # With S the sum of the gaps less their true mean and Q that of their squares, r = S / sqrt(Q) has all
    # that t has: |t| = sqrt(n - 1) |r| / sqrt(n - r^2). One gap more turns r by a random angle that does not
    # depend on any r so far, since Q does not (Basu 1955), so that r is a Markov chain. So the distribution
    # of |r| among the paths that have crossed no bound yet is carried from seed to seed as a histogram, and
    # each look's bound is put where as many paths cross it as the plan spends there.
    from scipy.optimize import brentq
    from scipy.special import ndtr

    spent = np.diff(level * (np.array(looks) / looks[-1]) ** spending, prepend=0.0)
    levels = [float(spent[0])]
    _, middles = _bins(looks[0], levels[0])
    mass = 2 * np.diff(ndtr(_scores(levels[0])))  # of the paths within all bounds so far, by |r|
    for seeds in range(looks[0] + 1, looks[-1] + 1):
        p = NO_LOOK
        if seeds in looks:
            known = (mass, middles, seeds, float(spent[len(levels)]))
            p = float(brentq(_excess, 1e-12, level, args=known, xtol=1e-10))
            levels.append(p)
        edges, after = _bins(seeds, p)
        mass, middles = mass @ np.diff(_inside(middles, edges, seeds - 1), axis=1), after
    return tuple(levels)


def _excess(p: float, mass: Numbers, middles: Numbers, seeds: int, error: float) -> float:
    """Return by how much the probability of first crossing the bound of level p exceeds `error`."""
    bound = _of_scores(_scores(p)[-1:], seeds)
    return float(mass @ (1 - _inside(middles, bound, seeds - 1)[:, 0])) - error


def _bins(seeds: int, p: float) -> tuple[Numbers, Numbers]:
    """Return edges and middles of bins of |r| up to the bound of level p, equally wide in normal scores."""
    scores = _scores(p)
    return _of_scores(scores, seeds), _of_scores((scores[1:] + scores[:-1]) / 2, seeds)


def _scores(p: float) -> Numbers:
    from scipy.special import ndtri

    scores: Numbers = np.linspace(0, -ndtri(p / 2), BINS + 1)
    return scores


def _of_scores(scores: Numbers, seeds: int) -> Numbers:
    """Return the |r| that are as improbable at a look as these normal scores."""
    from scipy.special import ndtr, stdtrit

    values = -stdtrit(seeds - 1, ndtr(-scores))
    distances: Numbers = values * np.sqrt(seeds / (seeds - 1 + values**2))
    return distances


def _inside(before: Numbers, bounds: Numbers, seeds: int) -> Numbers:
    """Return P(|r| < bound) after one gap more, (before, bounds), of r after `seeds` gaps.

    The new r is r cos(a) + sin(a) with tan(a) = x / sqrt(Q), x the new gap: sqrt(n) tan(a) is Student's
    t on n degrees of freedom. It lies below a bound at all angles a with sin(a + c) < bound / sqrt(1 + r^2).
    c = arctan(r) is 0 or more, as `before` are: a + c lies above -pi / 2.
    """
    from scipy.special import stdtr

    def angle_below(angle: Numbers) -> Numbers:
        clipped = np.clip(angle, -np.pi / 2 + 1e-12, np.pi / 2 - 1e-12)
        probability: Numbers = stdtr(seeds, np.sqrt(seeds) * np.tan(clipped))
        return probability

    def below(bounds: Numbers) -> Numbers:
        reached = np.arcsin(np.clip(bounds / np.sqrt(1 + before**2)[:, None], -1, 1))
        return angle_below(reached - shift) + 1 - angle_below(np.pi - reached - shift)

    shift = np.arctan(before)[:, None]
    return below(bounds) - below(-bounds)


class Prospect(NamedTuple):
    """Seeds, from the first on, with which a comparison closes with the plan's power; None: none does."""

    to_find: int | None  # the paper's gap, if it is the true one
    to_equate: int | None  # the norms within the margin, if they do not differ


def seeds_looked_at(
    plan: Looks, effect: float, *, kind: Kind, sd: float, example_error: float = 0.0
) -> int | None:
    """Return the fewest seeds by which the plan with its looks closes, with its power, in DRAWS comparisons.

    Of a difference: *better*, where the true gap is `effect`. Of equivalence: within ± `effect`, of norms
    that do not differ. Where the plan ends before, `seeds_needed`, and more than the plan has.
    """
    if effect == 0:
        return None
    from scipy.special import stdtrit

    (means, deviations, examples), seeds = _drawn(plan.after), np.array(plan.after)
    bounds, reaches = -stdtrit(seeds - 1, np.array([plan.levels(n) for n in plan.after]).T / 2)
    errors = np.hypot(sd * deviations / np.sqrt(seeds), example_error)
    gaps = sd * means + example_error * examples[:, None]
    differ, equal = gaps + effect > bounds * errors, np.abs(gaps) + reaches * errors < effect
    by_then = np.logical_or.accumulate(differ if kind == "difference" else equal, axis=1).mean(axis=0)
    if len(enough := seeds[by_then >= plan.power]):
        return int(enough[0])
    once = seeds_needed(plan, effect, kind=kind, sd=sd, example_error=example_error)
    return None if once is None else max(once, plan.after[-1] + 1)


@cache
def _drawn(looks: tuple[int, ...]) -> tuple[Numbers, Numbers, Numbers]:
    """Return normal gaps' mean and deviation at each look, (draws, looks), and example errors, (draws,)."""
    random = np.random.default_rng(0)
    gaps = random.standard_normal((DRAWS, looks[-1]))
    seeds = np.array(looks)
    means, squares = ((gaps**power).cumsum(axis=1)[:, seeds - 1] / seeds for power in (1, 2))
    deviations = np.sqrt((squares - means**2) * seeds / (seeds - 1))
    return means, deviations, random.standard_normal(DRAWS)


def seeds_needed(
    plan: Looks, effect: float, *, kind: Kind, sd: float, prior_df: float = 0.0, example_error: float = 0.0
) -> int | None:
    """Return the fewest seeds of a plan that is looked at once; None where MOST_SEEDS are too few.

    The variance is known with n - 1 + prior_df degrees of freedom. Of a difference: a two-sided t-test. Of
    equivalence: two one-sided tests of norms that do not differ, with power 2 P - 1, P that of one of them.
    """
    if effect == 0:
        return None
    from scipy.stats import nct, t

    def power(count: int) -> float:
        df = count - 1 + prior_df
        center = effect / math.sqrt(sd**2 / count + example_error**2)
        if kind == "difference":
            bound = t.isf(plan.level / 2, df)
            far = np.nan_to_num(nct.cdf(-bound, df, center))  # scipy has none where it vanishes
            return float(nct.sf(bound, df, center) + far)
        return 2 * float(nct.sf(t.isf(plan.level, df), df, center)) - 1

    # More seeds find more: the first that do are found by halving.
    first = bisect_left(range(MOST_SEEDS + 1), plan.power, lo=2, key=power)
    return first if first <= MOST_SEEDS else None
