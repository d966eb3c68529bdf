"""How often a fixed plan errs, on noise whose truth is known: `python -m scripts.benchmarks.verdicts`.

Coverage and size of intervals by noise, seeds and variance; a round is a drawn task of seven norms. The
draws are seeded: the same numbers on any machine.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

from adanorm.verdicts.preregistration import preregistration
from adanorm.verdicts.variance import Spread, TaskVariance
from scripts.benchmarks.harness import Options, Row, run_benchmark

Numbers = NDArray[np.float64]
NORMS = preregistration().norms
PAIRS = list(combinations(NORMS, 2))
SEEDS = (3, 5, 10, 20)
MNIST_STEP = 0.2  # of the accuracy on 500 images, in points
# Residual standard deviations, three seeds each: of the norms on RT (paper), and of all on MNIST (mini).
RT_SPREADS = (1.76, 0.37, 0.31, 0.35, 1.31, 0.44, 0.76)
MNIST_SPREAD = 0.25


class Noise:
    """Scores of every norm, (norms, seeds), that differ by chance alone; `step` rounds them."""

    def __init__(self, spreads: Sequence[float], *, step: float = 0.0, tails: float | None = None) -> None:
        self.spreads, self.step, self.tails = np.array(spreads)[:, None], step, tails

    def draw(self, random: np.random.Generator, seeds: int, gap: float = 0.0) -> Numbers:
        """Return scores about 90: a seed moves all norms alike, and noise each; the second has a gap more."""
        shape = (len(self.spreads), seeds)
        noise = random.standard_normal(shape) if self.tails is None else random.standard_t(self.tails, shape)
        level = 90 + random.standard_normal((1, seeds)) * self.spreads.mean() + random.random() * self.step
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
    """Return the variance of a drawn task as the registered plan estimates it."""
    table = {norm: dict(enumerate(row.tolist())) for norm, row in zip(NORMS, scores, strict=True)}
    return TaskVariance(table, preregistration().prior_df_at_most, step)


def _pooled(variance: TaskVariance, first: str, second: str) -> Spread | None:
    squares, df = variance.residual
    return Spread(2**0.5 * max(squares / df, variance.resolution**2 / 12) ** 0.5, df) if df else None


def _own(variance: TaskVariance, first: str, second: str) -> Spread | None:
    gaps = variance.gaps(first, second)
    sd = float(np.std(gaps, ddof=1))
    return Spread(sd, len(gaps) - 1) if sd > 0 else None


Method = Callable[[TaskVariance, str, str], Spread | None]
METHODS: dict[str, Method] = {"moderated": TaskVariance.of_difference, "pooled": _pooled, "own": _own}


def fixed_plan(noise: Noise, seeds: int, *, draws: int, seed: int = 0) -> dict[str, dict[str, float]]:
    """Return, by variance, how often the 95 % interval covers a true gap of 0, and for the worst pair.

    `size` is how often it does not, `false_equivalent` how often the 90 % interval lies inside a
    margin of two standard deviations that is the true gap.
    """
    random = np.random.default_rng((seed, seeds))
    margin = 2 * float(noise.spreads.mean())
    gaps, read = np.empty((draws, len(PAIRS))), {name: np.empty((draws, len(PAIRS), 2)) for name in METHODS}
    for draw in range(draws):
        variance = variance_of(noise.draw(random, seeds), noise.step)
        for place, pair in enumerate(PAIRS):
            gaps[draw, place] = np.mean(variance.gaps(*pair))
            for name, method in METHODS.items():
                # Where all gaps are alike the test is not defined, and rejects unless they are 0.
                read[name][draw, place] = method(variance, *pair) or (0.0, 1.0)
    found = {}
    for name, spreads in read.items():
        error, df = spreads[..., 0] / seeds**0.5, spreads[..., 1]
        covered = np.abs(gaps) <= t.isf(0.025, df) * error + 1e-9
        equivalent = np.abs(gaps + margin) + t.isf(0.05, df) * error < margin
        shares = {"coverage": covered.mean(), "worst_pair": covered.mean(0).min(), "size": 1 - covered.mean()}
        shares["false_equivalent"] = equivalent.mean()
        found[name] = {key: round(float(share), 4) for key, share in shares.items()}
    return found


def measure(options: Options) -> Iterator[Row]:
    """Yield one row per noise, number of seeds and variance."""
    for name, noise in NOISES.items():
        for seeds in SEEDS:
            for method, found in fixed_plan(noise, seeds, draws=options.rounds).items():
                yield {"noise": name, "seeds": seeds, "variance": method, **found, "rounds": options.rounds}


if __name__ == "__main__":
    run_benchmark(measure, rounds=4000)
