"""Tests with several looks.

The seeds needed are computed beforehand, never from the observed gap.
"""

import math
from bisect import bisect_left
from functools import cache
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Numbers: TypeAlias = NDArray[np.float64]
BINS = 100  # of the integration: the error of all looks together is within 1 % of `level`
NO_LOOK = 1e-9  # the level of a bound that no path crosses
MOST_SEEDS = 2000  # the most that are considered
DRAWS = 4000  # simulated comparisons: a share of 0.8 has a standard error of 0.6 %
Kind = Literal["difference", "equivalence"]


class Levels(NamedTuple):
    """The two-sided nominal levels of one look: for a difference, and for equivalence.

    A plan with one look has `level` and 2 x `level`, since equivalence is two one-sided tests.
    """

    difference: float
    equivalence: float


class LevelsOfLook(Levels):
    """The levels of the look after `seeds` seeds of each norm."""

    seeds: int


class Looks(NamedTuple):
    """The numbers of seeds after which a comparison is looked at.

    All looks together have error `level`. By the look after n seeds, level * (n / last
    look)^spending of the error is spent (power family of Kim & DeMets 1987). Numbers of seeds
    needed are computed so that a comparison closes with probability `power`.
    """

    after: tuple[int, ...]
    spending: float
    level: float = 0.05
    power: float = 0.8

    def levels(self, seeds: int) -> Levels:
        """Return the levels of the look after `seeds` seeds.

        Raises ValueError if the plan has none there.
        """
        if seeds not in self.after:
            raise ValueError(
                f"{seeds} seeds: the plan has looks after {', '.join(map(str, self.after))}"
            )
        look = self.after.index(seeds)
        difference = nominal_levels(self.after, self.level, self.spending, seeds)[look]
        equivalence = nominal_levels(self.after, 2 * self.level, self.spending, seeds)[look]
        levels = LevelsOfLook(difference, equivalence)
        levels.seeds = seeds
        return levels


def last_look(looks: tuple[int, ...], seeds: int) -> int | None:
    """Return the last look up to that number of seeds; None before the first."""
    return max((look for look in looks if look <= seeds), default=None)


def nominal_levels(
    looks: tuple[int, ...], level: float, spending: float, until: int | None = None
) -> tuple[float, ...]:
    """Return the two-sided level of Student's t at each look; looks are numbers of seeds from 2 on.

    Together they reject a true hypothesis with probability `level`: exact for normal gaps, up to
    BINS. Looks after `until` seeds, which take time, are left out. Raises ValueError unless looks
    rise from 2 on, level lies between 0 and 1, and spending is above 0.
    """
    rise = looks and looks[0] >= 2 and [*looks] == sorted({*looks})
    if not rise or not 0 < level < 1 or not spending > 0:
        raise ValueError(
            f"looks {looks}, level {level:g}, spending {spending:g}: looks rise, from 2 on"
        )
    levels = []
    for number, seeds in enumerate(looks):
        if until is None or seeds <= until:
            levels.append(_look(number, looks, level, spending)[0])
    return tuple(levels)


@cache
def _look(
    number: int, looks: tuple[int, ...], level: float, spending: float
) -> tuple[float, Numbers, Numbers]:
    """Return the level of a look; after it, the middles of the bins of |r| and their probability."""
    # Take the n gaps less their true mean, with sum S and sum of squares Q. r = S / sqrt(Q)
    # determines t: |t| = sqrt(n - 1) |r| / sqrt(n - r^2). One more gap turns r by a random angle,
    # which does not depend on any earlier r, since Q does not (Basu 1955): r is a Markov chain. A
    # histogram carries the distribution of |r|, over the paths that have crossed no bound yet, from
    # seed to seed. Each look's bound lies where
    # as many paths cross it as the plan spends there.
    from scipy.optimize import brentq
    from scipy.special import ndtr

    spent = np.diff(level * (np.array(looks) / looks[-1]) ** spending, prepend=0.0)
    error = max(float(spent[number]), NO_LOOK)
    if number == 0:
        _, middles = _bins(looks[0], error)
        # The probability of the paths within all bounds so far, by |r|.
        return error, middles, 2 * np.diff(ndtr(_scores(error)))
    _, middles, mass = _look(number - 1, looks, level, spending)
    p = NO_LOOK
    for seeds in range(looks[number - 1] + 1, looks[number] + 1):
        if seeds == looks[number]:
            facts = (mass, middles, seeds, error)
            p = level  # of a look that spends all but what the bins miss
            if _excess(level, *facts) > 0:
                p = float(brentq(_excess, 1e-12, level, args=facts, xtol=1e-10))
        edges, next_middles = _bins(seeds, p)
        stays = np.diff(_inside(middles, edges, seeds - 1), axis=1)
        mass = mass @ stays
        middles = next_middles
    return p, middles, mass


def _excess(p: float, mass: Numbers, middles: Numbers, seeds: int, error: float) -> float:
    """Return the probability of first crossing the bound of level p, less `error`."""
    bound = _r_of_scores(_scores(p)[-1:], seeds)
    crosses = 1 - _inside(middles, bound, seeds - 1)[:, 0]
    return float(mass @ crosses) - error


def _bins(seeds: int, p: float) -> tuple[Numbers, Numbers]:
    """Return edges and middles of bins of |r| up to level p's bound, equal in normal scores."""
    scores = _scores(p)
    return _r_of_scores(scores, seeds), _r_of_scores((scores[1:] + scores[:-1]) / 2, seeds)


def _scores(p: float) -> Numbers:
    from scipy.special import ndtri

    return np.linspace(0.0, -float(ndtri(p / 2)), BINS + 1)


def _r_of_scores(scores: Numbers, seeds: int) -> Numbers:
    """Return the |r| that are as improbable after `seeds` gaps as these normal scores."""
    from scipy.special import ndtr, stdtrit

    values = -stdtrit(seeds - 1, ndtr(-scores))
    return values * np.sqrt(seeds / (seeds - 1 + values**2))


def _inside(before: Numbers, bounds: Numbers, seeds: int) -> Numbers:
    """Return P(|r| < bound) after one more gap, (before, bounds), given r = `before` after n gaps.

    The new r is r cos(a) + sin(a) with tan(a) = x / sqrt(Q), x the new gap: sqrt(n) tan(a) is
    Student's t on n degrees of freedom. It lies below a bound at all angles a with sin(a + c) <
    bound / sqrt(1 + r^2), where c = arctan(r). Since `before` >= 0, c >= 0 and a + c lies above -pi
    / 2.
    """
    shift = np.arctan(before)[:, None]
    sines = bounds / np.sqrt(1 + before**2)[:, None]
    limit = np.arcsin(np.clip(sines, -1, 1))
    later = _t_below(np.pi - limit - shift, seeds)
    below_upper = _t_below(limit - shift, seeds) + 1 - later
    below_lower = _t_below(-limit - shift, seeds)  # here the later angles lie beyond pi / 2
    return below_upper - below_lower


def _t_below(angle: Numbers, df: int) -> Numbers:
    """Return P(t < sqrt(df) tan(angle)) for Student's t on a whole number of degrees of freedom.

    By its finite series (Abramowitz & Stegun 1964, 26.7.3 and 26.7.4), which takes a tenth of the
    time of scipy's `stdtr`. Beyond ± pi / 2 it is 0 or 1.
    """
    angle = np.clip(angle, -np.pi / 2, np.pi / 2)
    sine = np.sin(angle)
    cosine = np.cos(angle)
    is_odd = df % 2
    term = cosine**is_odd
    series = np.zeros_like(angle)
    squares = cosine**2
    for step in range(2 + is_odd, df + 1, 2):
        series += term
        term *= squares * ((step - 1) / step)
    share = sine * series
    if is_odd:
        share = 2 / np.pi * (angle + share)
    return (1 + share) / 2


class Prospect(NamedTuple):
    """Total numbers of seeds with which a comparison closes, with the plan's power.

    None: no number does.
    """

    to_find: int | None  # to find the paper's gap, if it is the true one
    to_equate: int | None  # to show equivalence, if the norms do not differ


def seeds_looked_at(
    plan: Looks, effect: float, *, kind: Kind, sd: float, example_error: float = 0.0
) -> int | None:
    """Return the fewest seeds by which a plan's looks close, with its power, in DRAWS simulations.

    A difference closes as *better* with a true gap of `effect`; equivalence, within ± `effect` for
    norms that do not differ. If the plan ends before: `seeds_needed`, at least one more than the
    plan has; or None.
    """
    if effect == 0:
        return None
    from scipy.special import stdtrit

    means, deviations, examples = _simulated(plan.after)
    seeds = np.array(plan.after)
    levels = np.array([plan.levels(look) for look in plan.after])
    bounds, reaches = -stdtrit(seeds - 1, levels.T / 2)
    errors = np.hypot(sd * deviations / np.sqrt(seeds), example_error)
    gaps = sd * means + example_error * examples[:, None]
    if kind == "difference":
        closes = gaps + effect > bounds * errors
    else:
        closes = np.abs(gaps) + reaches * errors < effect
    has_closed = np.logical_or.accumulate(closes, axis=1).mean(axis=0)
    enough = seeds[has_closed >= plan.power]
    if len(enough):
        return int(enough[0])
    with_one_look = seeds_needed(plan, effect, kind=kind, sd=sd, example_error=example_error)
    return None if with_one_look is None else max(with_one_look, plan.after[-1] + 1)


@cache
def _simulated(looks: tuple[int, ...]) -> tuple[Numbers, Numbers, Numbers]:
    """Return standard normal gaps' means and deviations by look, and errors of test examples.

    Means and deviations are (draws, looks), errors (draws,).
    """
    random = np.random.default_rng(0)
    gaps = random.standard_normal((DRAWS, looks[-1]))
    example_errors = random.standard_normal(DRAWS)
    seeds = np.array(looks)
    sums = gaps.cumsum(axis=1)[:, seeds - 1]
    sums_of_squares = np.square(gaps).cumsum(axis=1)[:, seeds - 1]
    means = sums / seeds
    variances = (sums_of_squares / seeds - means**2) * seeds / (seeds - 1)
    return means, np.sqrt(variances), example_errors


def seeds_needed(
    plan: Looks,
    effect: float,
    *,
    kind: Kind,
    sd: float,
    prior_df: float = 0.0,
    df_per_seed: float = 1.0,
    example_error: float = 0.0,
) -> int | None:
    """Return the fewest seeds with which a plan with one look has its power.

    None if MOST_SEEDS are too few. The variance has df_per_seed (n - 1) + prior_df degrees of
    freedom: two independent groups of one deviation have 2 per seed. A difference takes a two-sided
    t-test. Equivalence takes two one-sided tests; for norms that do not differ their power is
    2 P - 1, with P that of one test.
    """
    if effect == 0:
        return None
    from scipy.special import nctdtr, stdtrit

    level = plan.level if kind == "equivalence" else plan.level / 2

    def power(count: int) -> float:
        df = df_per_seed * (count - 1) + prior_df
        error = math.sqrt(sd**2 / count + example_error**2)
        center = effect / error
        bound = -stdtrit(df, level)
        misses = float(nctdtr(df, center, bound))
        if kind == "equivalence":
            return 1 - 2 * misses
        far = nctdtr(df, center, -bound)
        far = np.nan_to_num(far)  # scipy gives NaN where it vanishes
        return 1 - misses + float(far)

    # Power rises with seeds, so bisection finds the first number that is enough.
    first = bisect_left(range(MOST_SEEDS + 1), plan.power, lo=2, key=power)
    return first if first <= MOST_SEEDS else None
