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
from adanorm.stats.variance import student_tail

LARGEST = 1e50  # of an effect or error: squares and their ratios stay finite
NORMAL_DF = 1e9  # Student's t with more degrees of freedom is normal
LEAST_ERROR, MOST_ERROR = 1e-3, 10.0  # of the posterior, in deviations of the prior
FARTHEST = 1e6  # of effects from each other, in errors
MOST_DF = 1e3  # of the posterior: with more, its shares change by less than 0.001
DEVIATIONS, MEANS = 48, 81  # points of the posterior's grid: the means for each data set
STEP = 0.7  # of the grid of precisions, in their deviation
BORDERS = np.array([1.0, -1.0, 0.0])  # of the shares


def _checked(fewest: int, **columns: Numbers) -> list[Numbers]:
    """Return columns as numbers, (data sets,): `effects`, `errors`, and `dfs` or `reference`.

    Raises ValueError for fewer than `fewest` data sets, columns of different lengths, and numbers
    out of range, with the data set: errors and dfs must be positive, and all but dfs finite.
    """
    checked = {name: np.asarray(column, dtype=float) for name, column in columns.items()}
    shapes = {values.shape for values in checked.values()}
    sizes = {values.size for values in checked.values()}
    if len(shapes) > 1 or max(map(len, shapes)) > 1 or min(sizes) < fewest:
        names = ", ".join(columns)
        raise ValueError(f"{names}: must have {fewest} data sets or more, a number for each")
    for name, values in checked.items():
        is_positive = name in ("errors", "dfs")
        sizes_of_numbers = values if is_positive else np.abs(values)
        is_right = sizes_of_numbers <= (math.inf if name == "dfs" else LARGEST)
        if is_positive:
            is_right &= values >= 1 / LARGEST
        if not is_right.all():
            wrong = int(is_right.argmin())
            rule = "positive" if is_positive else "finite"
            if name != "dfs":
                rule += f" and at most {LARGEST:g} in size"
            raise ValueError(f"data set {wrong + 1}: {name} {values[wrong]:g}: must be {rule}")
    return [*checked.values()]


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
        return 2 * student_tail(abs(self.mean), self.error, self.df)

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
    fewer than two data sets and for effects or errors out of range.
    """
    from scipy.special import chdtrc

    effects, errors = _checked(2, effects=effects, errors=errors)
    count = len(effects)
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
        return 2 * student_tail(abs(self.value - value), self.error, self.df)


def multiple_of(effects: Numbers, errors: Numbers, dfs: Numbers, reference: Numbers) -> Multiple:
    """Return the factor m of effects = m * reference; all arguments are (data sets,).

    Weighted least squares through zero, with the weights 1 / errors². The degrees of freedom are
    Satterthwaite's. Raises ValueError if every reference effect is zero, and for numbers out of
    range.
    """
    effects, errors, dfs, reference = _checked(
        1, effects=effects, errors=errors, dfs=dfs, reference=reference
    )
    information = reference**2 / errors**2
    total = float(information.sum())
    if not total:
        raise ValueError("every reference effect is zero: there is no multiple of it")
    value = float((reference * effects / errors**2).sum()) / total
    shares = information / total
    df = 1 / float((shares**2 / np.minimum(dfs, NORMAL_DF)).sum())
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
    fewer than two data sets, numbers out of range, effects more than a million errors apart, and
    an error below a thousandth of the prior deviation or above ten of them.
    """
    from scipy.special import ndtr

    effects, errors, dfs = _checked(2, effects=effects, errors=errors, dfs=dfs)
    if not 0 < prior_deviation < LARGEST:
        raise ValueError(f"prior_deviation={prior_deviation:g}: must be positive and finite")
    scaled = errors / prior_deviation
    spread = float(np.ptp(effects))
    is_far = spread > FARTHEST * errors.min()
    if is_far or scaled.min() < LEAST_ERROR or scaled.max() > MOST_ERROR:
        ends = f"effects {effects.min():g} to {effects.max():g}, errors {errors.min():g} to"
        raise ValueError(f"{ends} {errors.max():g}: too far apart for a grid")
    deviations, log_prior = _deviations(effects, errors, prior_deviation)
    means = _means(effects, errors, deviations)
    log_density = np.tile(log_prior[:, None], means.shape[1])
    mixtures = []
    for effect, error, df in zip(effects, errors, dfs, strict=True):
        mixture = _mixture(error, min(df, MOST_DF), spread)
        mixtures.append(mixture)
        for row, deviation in enumerate(deviations):
            logs = mixture.log_densities(effect - means[row], deviation)
            log_density[row] += _log_sum(logs)
    density = np.exp(log_density - log_density.max())
    joint = density * np.gradient(means, axis=1)
    joint /= joint.sum()

    # Points of no weight are left out: those of the rest are (points,).
    is_kept = joint > 1e-9 * joint.max()
    weights = joint[is_kept]
    centers = means[is_kept]
    weights /= weights.sum()
    widths = np.broadcast_to(deviations[:, None], means.shape)[is_kept]
    each = []
    for effect, mixture in zip(effects, mixtures, strict=True):
        above = mixture.above(effect, centers, widths)
        each.append(_shares(weights @ above))
    new = weights @ ndtr((centers[:, None] - BORDERS) / widths[:, None])

    values = np.sort(means, axis=None)
    below = np.zeros(values.shape)
    for row, heights in zip(means, density, strict=True):
        masses = np.diff(row) * (heights[1:] + heights[:-1]) / 2
        below += np.interp(values, row, np.append(0, masses.cumsum()))
    below /= below[-1]
    low, high = np.interp(
        [0.025, 0.975],
        below,
        values,
    )
    return Posterior(
        tuple(each),
        _shares(new),
        _shares(1 - np.interp(BORDERS, values, below)),
        float(weights @ centers),
        Interval(float(low), float(high)),
    )


def _deviations(
    effects: Numbers, errors: Numbers, prior_deviation: float
) -> tuple[Numbers, Numbers]:
    """Return deviations between data sets, (deviations,), and the logs of their prior mass.

    They are midpoints of equal steps in asinh: close to each other where they are small.
    """
    smallest = min(float(errors.min()), prior_deviation)
    spread = float(np.ptp(effects))
    largest = 4 * prior_deviation + 2 * math.sqrt(spread * prior_deviation)
    midpoints = (np.arange(DEVIATIONS) + 0.5) / DEVIATIONS
    steps = midpoints * math.asinh(largest / smallest)
    deviations = smallest * np.sinh(steps)
    log_widths = np.log(np.cosh(steps))  # of the steps in deviations, up to a constant
    log_prior = -((deviations / prior_deviation) ** 2) / 2
    return deviations, log_widths + log_prior


def _means(effects: Numbers, errors: Numbers, deviations: Numbers) -> Numbers:
    """Return means in order, (deviations, means), where given the deviation they may have weight.

    They lie close to each other around each effect and around the weighted mean of all effects.
    """
    variances = deviations[:, None] ** 2 + errors**2
    information = (1 / variances).sum(axis=1)
    weighted = (effects / variances).sum(axis=1) / information
    around_each = np.tile(effects, (len(deviations), 1))
    centers = np.column_stack([around_each, weighted])
    errors_of_each = np.sqrt(variances / len(effects))
    scales = np.column_stack([errors_of_each, information**-0.5])
    steps, step = np.linspace(-5, 5, MEANS, retstep=True)
    # Shifted by parts of a step, so that effects which agree do not have the same points.
    count = centers.shape[1]
    shifts = step * np.arange(count) / count
    reach = np.sinh(steps + shifts[:, None])
    means = centers[:, :, None] + scales[:, :, None] * reach
    by_deviation = means.reshape(len(deviations), -1)
    return np.sort(by_deviation, axis=1)


class _Mixture(NamedTuple):
    """Student's t as a mixture of normal densities: their variances, and the logs of their shares.

    A variance is error² / x where df x is chi-squared with df degrees of freedom.
    """

    variances: Numbers
    log_shares: Numbers

    def log_densities(self, distances: Numbers, widths: Numbers | float) -> Numbers:
        """Return log densities of an estimate, (points, mixture), up to a constant.

        `distances` are those from the mean; true effects deviate from it by `widths`.
        """
        variances = np.square(widths)[..., None] + self.variances
        return self.log_shares - np.log(variances) / 2 - distances[:, None] ** 2 / (2 * variances)

    def above(self, effect: float, means: Numbers, widths: Numbers) -> Numbers:
        """Return the probability that the true effect is above each border, (points, borders)."""
        from scipy.special import ndtr

        logs = self.log_densities(effect - means, widths)
        shares = np.exp(logs - _log_sum(logs)[:, None])
        between = widths[:, None] ** 2
        total = between + self.variances
        centers = (effect * between + means[:, None] * self.variances) / total
        sd = np.sqrt(between * self.variances / total)
        columns = [(shares * ndtr((centers - border) / sd)).sum(axis=1) for border in BORDERS]
        return np.column_stack(columns)


def _mixture(error: float, df: float, spread: float) -> _Mixture:
    """Return the mixture of a standard error, for effects up to `spread` from each other."""
    width = math.sqrt(2 / (df + 1))  # of the logs of x / df
    likeliest = math.log((df + 1) / (df + (spread / error) ** 2))  # for the farthest effect
    low = likeliest - 8 * width - 30 / (df + 1)
    high = 6 * width
    points = math.ceil((high - low) / (STEP * width))
    logs = np.linspace(low, high, points)
    precisions = np.exp(logs)
    variances = error**2 * np.exp(-logs)
    log_shares = df / 2 * (logs - precisions)
    return _Mixture(variances, log_shares)


def _log_sum(logs: Numbers) -> Numbers:
    """Return the logs of the sums of exp(logs) over the last axis."""
    largest = logs.max(axis=-1, keepdims=True)
    sums = np.exp(logs - largest).sum(axis=-1)
    return np.asarray(largest[..., 0] + np.log(sums))


def _shares(above: Numbers) -> Shares:
    """Return the shares of a belief by the probabilities above BORDERS."""
    if not np.isfinite(above).all():
        raise ValueError("the effects are too far apart for a grid")
    better, not_worse, positive = (float(share) for share in above)
    return Shares(
        better,
        not_worse - better,
        1 - not_worse,
        positive,
    )
