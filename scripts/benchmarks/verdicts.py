"""How often a fixed plan errs on simulated noise: `python -m scripts.benchmarks.verdicts`.

Coverage and size of intervals by kind of noise, number of seeds and variance. A round is one
simulated task of seven norms. Draws are seeded, so every machine gives the same numbers.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

from adanorm.stats.variance import Spread, TaskVariance
from adanorm.verdicts.preregistration import preregistration
from scripts.benchmarks.harness import Options, Row, run_benchmark

Numbers = NDArray[np.float64]
NORMS = preregistration().norms
PAIRS = list(combinations(NORMS, 2))
SEEDS = (3, 5, 10, 20)
MNIST_STEP = 0.2  # points: one of 500 images
# Residual standard deviations over three seeds: of each norm on RT (paper), of all on MNIST (mini).
RT_SPREADS = (1.76, 0.37, 0.31, 0.35, 1.31, 0.44, 0.76)
MNIST_SPREAD = 0.25


class Noise:
    """A source of scores (norms, seeds) that differ by chance alone, rounded to `step`."""

    def __init__(
        self,
        spreads: Sequence[float],
        *,
        step: float = 0.0,
        tails: float | None = None,
    ) -> None:
        self.spreads, self.step, self.tails = (
            np.array(spreads)[:, None],
            step,
            tails,
        )

    def draw(self, random: np.random.Generator, seeds: int, gap: float = 0.0) -> Numbers:
        """Return scores about 90: a level per seed, plus noise.

        The second norm also has the gap.
        """
        shape = (len(self.spreads), seeds)
        noise = (
            random.standard_normal(shape)
            if self.tails is None
            else random.standard_t(self.tails, shape)
        )
        level = (
            90
            + random.standard_normal((1, seeds)) * self.spreads.mean()
            + random.random() * self.step
        )
        scores: Numbers = level + noise * self.spreads
        scores[1] += gap
        return np.round(scores / self.step) * self.step if self.step else scores


EQUAL = (1.0,) * len(NORMS)
NOISES = {
    "normal": Noise(EQUAL),
    "quantized": Noise((MNIST_SPREAD,) * len(NORMS), step=MNIST_STEP),
    "unequal, 1 to 4": Noise(tuple(np.geomspace(0.5, 2, len(NORMS)))),
    "unequal, as RT's residuals": Noise(RT_SPREADS),
    "heavy tails, t(4)": Noise(EQUAL, tails=4),
}


def variance_of(scores: Numbers, step: float) -> TaskVariance:
    """Return the variance of a simulated task as the registered plan estimates it."""
    table = {norm: dict(enumerate(row.tolist())) for norm, row in zip(NORMS, scores, strict=True)}
    return TaskVariance(table, preregistration().prior_df_at_most, step)


def _pooled(variance: TaskVariance, first: str, second: str) -> Spread | None:
    squares, df = variance.residual
    return (
        Spread(
            2**0.5 * max(squares / df, variance.resolution**2 / 12) ** 0.5,
            df,
        )
        if df
        else None
    )


def _own(variance: TaskVariance, first: str, second: str) -> Spread | None:
    gaps = variance.gaps(first, second)
    sd = float(np.std(gaps, ddof=1))
    return Spread(sd, len(gaps) - 1) if sd > 0 else None


Method = Callable[[TaskVariance, str, str], Spread | None]
METHODS: dict[str, Method] = {
    "moderated": TaskVariance.of_difference,
    "pooled": _pooled,
    "own": _own,
}


def fixed_plan(noise: Noise, seeds: int, *, draws: int) -> dict[str, dict[str, float]]:
    """Return, by variance, how often the 95 % interval covers 0, over all pairs and the worst.

    The true gap is 0.
    `size` is how often it does not cover it. `false_equivalent` is how often the 90 % interval lies
    inside a margin of two standard deviations when the true gap equals the margin.
    """
    random = np.random.default_rng((0, seeds))
    margin = 2 * float(noise.spreads.mean())
    gaps, sd_df = (
        np.empty((draws, len(PAIRS))),
        {name: np.empty((draws, len(PAIRS), 2)) for name in METHODS},
    )
    for draw in range(draws):
        variance = variance_of(noise.draw(random, seeds), noise.step)
        for column, pair in enumerate(PAIRS):
            gaps[draw, column] = np.mean(variance.gaps(*pair))
            for name, method in METHODS.items():
                # Where all gaps are equal the test is undefined: it then rejects unless they are 0.
                sd_df[name][draw, column] = method(variance, *pair) or (
                    0.0,
                    1.0,
                )
    by_variance = {}
    for name, spreads in sd_df.items():
        error, df = spreads[..., 0] / seeds**0.5, spreads[..., 1]
        covered = np.abs(gaps) <= t.isf(0.025, df) * error + 1e-9
        equivalent = np.abs(gaps + margin) + t.isf(0.05, df) * error < margin
        shares = {
            "coverage": covered.mean(),
            "worst_pair": covered.mean(0).min(),
            "size": 1 - covered.mean(),
        }
        shares["false_equivalent"] = equivalent.mean()
        by_variance[name] = {key: round(float(share), 4) for key, share in shares.items()}
    return by_variance


def measure(options: Options) -> Iterator[Row]:
    """Yield one row per noise, number of seeds and variance."""
    for name, noise in NOISES.items():
        for seeds in SEEDS:
            for method, shares in fixed_plan(noise, seeds, draws=options.rounds).items():
                yield {
                    "noise": name,
                    "seeds": seeds,
                    "variance": method,
                    **shares,
                    "rounds": options.rounds,
                }


if __name__ == "__main__":
    run_benchmark(measure, rounds=4000)
