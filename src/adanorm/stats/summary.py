"""One number over several data sets: random effects, a multiple of a reference, and a posterior.

All functions take one effect per data set in a common unit, such as the margin: its estimate, its
standard error and the degrees of freedom that the error is known with.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from adanorm.stats.comparison import Interval, student_interval
from adanorm.stats.sequential import Numbers

WIDEST = 10.0  # of the grid of effects, in deviations of the prior
MEANS, DEVIATIONS, EFFECTS = 121, 40, 1201  # points of the grid


@dataclass(frozen=True)
class RandomEffects:
    """The mean effect over data sets and the deviation of true effects between them.

    `error` is the mean's standard error by Hartung and Knapp, with `df` degrees of freedom.
    `heterogeneity_p` tests that all true effects are equal (Cochran's Q).
    """

    mean: float
    error: float
    df: int
    deviation: float
    heterogeneity_p: float

    @property
    def p(self) -> float:
        """The two-sided p of a mean of zero."""
        from scipy.special import stdtr

        return 2 * float(stdtr(self.df, -abs(self.mean) / self.error))

    def interval(self, significance: float = 0.05) -> Interval:
        """Return the mean's interval, which excludes zero if p is below `significance`."""
        return student_interval(
            self.mean,
            self.error,
            self.df,
            significance,
        )


def random_effects(effects: Numbers, errors: Numbers) -> RandomEffects:
    """Return the mean over data sets of `effects` with standard errors `errors`, both (data sets,).

    The variance between data sets is that of restricted maximum likelihood (Viechtbauer 2005). The
    mean's error is that of Hartung and Knapp (2001); its factor is at least 1, so that data sets
    which agree by chance do not narrow the interval (Röver et al. 2015). Raises ValueError for
    fewer than two data sets or an error that is not positive.
    """
    from scipy.special import chdtrc

    count = len(effects)
    if count < 2 or len(errors) != count or not np.all(errors > 0):
        raise ValueError("a summary needs two data sets or more, each with a positive error")
    variances = errors**2
    between = _restricted_likelihood_variance(effects, variances)
    weights = 1 / (variances + between)
    mean = float(np.average(effects, weights=weights))
    squares = float(weights @ (effects - mean) ** 2)
    factor = max(1.0, squares / (count - 1))
    error = math.sqrt(factor / float(weights.sum()))
    common = np.average(effects, weights=1 / variances)
    q = float(((effects - common) ** 2 / variances).sum())
    heterogeneity_p = float(chdtrc(count - 1, q))
    return RandomEffects(
        mean,
        error,
        count - 1,
        math.sqrt(between),
        heterogeneity_p,
    )


def _restricted_likelihood_variance(effects: Numbers, variances: Numbers) -> float:
    """Return the variance between data sets that maximizes the restricted likelihood; 0 or more."""
    from scipy.optimize import minimize_scalar

    def loss(between: float) -> float:
        weights = 1 / (variances + between)
        mean = np.average(effects, weights=weights)
        squares = weights @ (effects - mean) ** 2
        return float(squares - np.log(weights).sum() + math.log(weights.sum())) / 2

    largest = 10 * float(effects.var(ddof=1))
    if largest == 0:
        return 0.0
    options = {"xatol": 1e-9 * largest}
    best = minimize_scalar(
        loss,
        bounds=(0.0, largest),
        method="bounded",
        options=options,
    )
    return float(best.x) if best.fun < loss(0.0) else 0.0


class Multiple(NamedTuple):
    """A factor between effects and reference effects, with its standard error and degrees of freedom."""

    value: float
    error: float
    df: float

    def interval(self, significance: float = 0.05) -> Interval:
        """Return the factor's interval."""
        return student_interval(
            self.value,
            self.error,
            self.df,
            significance,
        )

    def p_of(self, value: float) -> float:
        """Return the two-sided p of the hypothesis that the true factor is `value`."""
        from scipy.special import stdtr

        return 2 * float(stdtr(self.df, -abs(self.value - value) / self.error))


def multiple_of(effects: Numbers, errors: Numbers, dfs: Numbers, reference: Numbers) -> Multiple:
    """Return the factor m of effects = m * reference; all arguments are (data sets,).

    Weighted least squares through zero, with the weights 1 / errors². The degrees of freedom are
    Satterthwaite's. Raises ValueError if every reference effect is zero.
    """
    if not np.any(reference):
        raise ValueError("every reference effect is zero: there is no multiple of it")
    information = reference**2 / errors**2
    total = float(information.sum())
    value = float((reference * effects / errors**2).sum()) / total
    df = total**2 / float((information**2 / dfs).sum())
    return Multiple(value, total**-0.5, df)


class Shares(NamedTuple):
    """Probabilities that a true effect is better by the margin, within it, or worse by it; and above 0."""

    better: float
    within: float
    worse: float
    positive: float


class Posterior(NamedTuple):
    """What is believed of effects, in margins, after the data.

    `each` has the shares of every data set, in their order, `new` those of a further data set, and
    `mean` those of the mean over all data sets that could be taken. `mean_effect` is its posterior
    mean, with `mean_interval` the central 95 %.
    """

    each: tuple[Shares, ...]
    new: Shares
    mean: Shares
    mean_effect: float
    mean_interval: Interval


def posterior(
    effects: Numbers, errors: Numbers, dfs: Numbers, *, prior_deviation: float = 1.0
) -> Posterior:
    """Return the hierarchical posterior of effects in margins; all arguments are (data sets,).

    An estimate is Student's t around the true effect. True effects are normal around a mean with a
    flat prior; their deviation has a half-normal prior of scale `prior_deviation` (Gelman 2006;
    Röver 2020). Computed on a grid, so the same numbers give the same digits. Raises ValueError for
    an error that lies below the grid's step or above ten prior deviations.
    """
    from scipy.special import gammaln

    reach = float(np.max(np.abs(effects) + 4 * errors)) + 3 * prior_deviation
    reach = max(reach, WIDEST * prior_deviation)
    true = np.linspace(-reach, reach, EFFECTS)
    if errors.min() < true[1] - true[0] or errors.max() > 10 * prior_deviation:
        raise ValueError(f"errors {errors.min():g} to {errors.max():g}: too far apart for a grid")
    center = random_effects(effects, errors)
    half_width = 6 * math.hypot(center.error, prior_deviation / math.sqrt(len(effects)))
    means = np.linspace(
        center.mean - half_width,
        center.mean + half_width,
        MEANS,
    )
    deviations = np.linspace(
        0,
        4 * prior_deviation,
        DEVIATIONS + 1,
    )[1:]
    constants = gammaln((dfs + 1) / 2) - gammaln(dfs / 2) - np.log(np.pi * dfs) / 2
    scaled = (effects[:, None] - true) / errors[:, None]
    powers = -(dfs[:, None] + 1) / 2 * np.log1p(scaled**2 / dfs[:, None])
    likelihoods = np.exp(constants[:, None] + powers) / errors[:, None]

    # The prior of a true effect given mean and deviation, (deviations, means, effects).
    distances = (true - means[:, None]) / deviations[:, None, None]
    priors = np.exp(-(distances**2) / 2)
    priors /= priors.sum(axis=2, keepdims=True)
    marginal = np.einsum("dme,te->tdm", priors, likelihoods)
    log_joint = np.log(marginal).sum(axis=0) - (deviations[:, None] / prior_deviation) ** 2 / 2
    joint = np.exp(log_joint - log_joint.max())
    joint /= joint.sum()

    each = []
    for likelihood, evidence in zip(
        likelihoods,
        marginal,
        strict=True,
    ):
        density = likelihood * np.einsum(
            "dm,dme->e",
            joint / evidence,
            priors,
        )
        each.append(_shares(true, density))
    new = _shares(
        true,
        np.einsum(
            "dm,dme->e",
            joint,
            priors,
        ),
    )
    of_mean = joint.sum(axis=0)
    below = of_mean.cumsum() - of_mean / 2
    low, high = np.interp(
        [0.025, 0.975],
        below,
        means,
    )
    interval = Interval(float(low), float(high))
    return Posterior(
        tuple(each),
        new,
        _shares(means, of_mean),
        float(of_mean @ means),
        interval,
    )


def _shares(values: Numbers, density: Numbers) -> Shares:
    """Return the shares of a density over equally spaced values; a value on a border counts half."""
    mass = density / density.sum()

    def above(border: float) -> float:
        return float(mass[values > border].sum() + mass[np.isclose(values, border)].sum() / 2)

    better, not_worse = above(1.0), above(-1.0)
    return Shares(
        better,
        not_worse - better,
        1 - not_worse,
        above(0.0),
    )
