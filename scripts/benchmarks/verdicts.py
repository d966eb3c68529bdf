"""How often verdicts err, on noise whose truth is known: `python -m scripts.benchmarks.verdicts`.

Writes results/bench/verdicts.csv, coverage and size of a fixed plan by seeds, noise and variance, and
results/bench/verdicts-sequential.csv, size, power and seeds of the plan with a look after every seed. The
draws are seeded: the same numbers on any machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from adanorm.reporting.verdicts.comparison import Comparison
from adanorm.reporting.verdicts.planning import seeds_needed
from adanorm.reporting.verdicts.preregistration import preregistration
from adanorm.reporting.verdicts.sequential import Levels, look_levels
from adanorm.reporting.verdicts.variance import Spread, TaskVariance
from scripts.benchmarks import results

Numbers = NDArray[np.float64]
NORMS = preregistration().norms
PAIRS = list(combinations(NORMS, 2))
SEEDS = (3, 5, 10, 20)
FIXED, SEQUENTIAL = 4000, 2000  # data sets drawn
MNIST_STEP = 0.2  # of the accuracy on 500 images, in points
# Residual standard deviations at scale paper, three seeds each: of RT's norms, and of all on MNIST.
RT_SPREADS = (1.76, 0.37, 0.31, 0.35, 1.31, 0.44, 0.76)
MNIST_SPREAD = 0.25


class Noise:
    """Scores of every norm, (norms, seeds), that differ by chance alone; `step` rounds them."""

    def __init__(self, spreads: Sequence[float], *, step: float = 0.0, tails: float | None = None) -> None:
        self.spreads, self.step, self.tails = np.array(spreads)[:, None], step, tails

    def draw(self, random: np.random.Generator, seeds: int) -> Numbers:
        """Return scores about 90: a seed moves all norms alike, and noise each."""
        shape = (len(self.spreads), seeds)
        noise = random.standard_normal(shape) if self.tails is None else random.standard_t(self.tails, shape)
        level = 90 + random.standard_normal((1, seeds)) * self.spreads.mean() + random.random() * self.step
        scores: Numbers = level + noise * self.spreads
        return np.round(scores / self.step) * self.step if self.step else scores


EQUAL = (1.0,) * len(NORMS)
NOISES = {
    "normal": Noise(EQUAL),
    "quantized": Noise((MNIST_SPREAD,) * len(NORMS), step=MNIST_STEP),
    "unequal, 1 to 4": Noise(tuple(np.geomspace(0.5, 2, len(NORMS)))),
    "unequal, as RT's residuals": Noise(RT_SPREADS),
    "heavy tails, t(4)": Noise(EQUAL, tails=4),
}

# The first two norms are those compared.
LOOKED_AT = {
    "normal": NOISES["normal"],
    "quantized": NOISES["quantized"],
    "unequal, of the two noisiest": Noise(tuple(np.geomspace(2, 0.5, len(NORMS)))),
    "unequal, of the two calmest": Noise(tuple(np.geomspace(0.5, 2, len(NORMS)))),
}


def variance_of(scores: Numbers, step: float) -> TaskVariance:
    """Return the variance of a drawn task as the registered plan estimates it."""
    table = {norm: dict(enumerate(row.tolist())) for norm, row in zip(NORMS, scores, strict=True)}
    return TaskVariance(table, preregistration().prior_df_at_most, step)


def _moderated(variance: TaskVariance, first: str, second: str) -> Spread | None:
    return variance.of_difference(first, second)


def _pooled(variance: TaskVariance, first: str, second: str) -> Spread | None:
    found = variance.residual
    return Spread(2**0.5 * found.sd, found.df) if found else None


def _own(variance: TaskVariance, first: str, second: str) -> Spread | None:
    gaps = variance.gaps(first, second)
    sd = float(np.std(gaps, ddof=1))
    return Spread(sd, len(gaps) - 1) if sd > 0 else None


METHODS: dict[str, Callable[[TaskVariance, str, str], Spread | None]] = {
    "moderated": _moderated,
    "pooled": _pooled,
    "own": _own,
}


def fixed_plan(noise: Noise, seeds: int, *, draws: int, seed: int = 0) -> dict[str, dict[str, float]]:
    """Return, by variance, how often the 95 % interval covers a true gap of 0, and for the worst pair.

    `size` is how often it does not, `false_equivalent` how often the 90 % interval lies inside a
    margin of two standard deviations that is the true gap.
    """
    from scipy.stats import t

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
        found[name] = {
            "coverage": round(float(covered.mean()), 4),
            "worst_pair": round(float(covered.mean(0).min()), 4),
            "size": round(1 - float(covered.mean()), 4),
            "false_equivalent": round(float(equivalent.mean()), 4),
        }
    return found


def looks(random: np.random.Generator, noise: Noise, gap: float, margin: float) -> Iterator[Comparison]:
    """Yield a comparison after each seed, of two norms whose true gap is `gap`; the others keep three."""
    registered = preregistration()
    plan = registered.stopping
    scores = noise.draw(random, plan.most)
    scores[1] += gap
    others = {
        norm: dict(enumerate(row[: plan.planned])) for norm, row in zip(NORMS, scores.tolist(), strict=True)
    }
    for seeds in range(plan.planned, plan.most + 1):
        table = others | {
            norm: dict(enumerate(scores[k, :seeds].tolist())) for k, norm in enumerate(NORMS[:2])
        }
        variance = TaskVariance(table, registered.prior_df_at_most, noise.step)
        spread = variance.of_difference(*NORMS[:2])
        assert spread is not None, "the other norms have a variance"
        levels: Levels = look_levels(seeds, level=registered.level, **plan.model_dump())
        yield Comparison(float(np.mean(variance.gaps(*NORMS[:2]))), *spread, seeds, margin, levels)


def sequential_plan(
    noise: Noise, gap: float, *, draws: int, margin: float, seed: int = 1
) -> dict[str, float]:
    """Return what the plan with a look after every seed comes to where the true gap is `gap`.

    `ever_different` goes on after *equivalent* and so bounds the error at a gap of 0; `ever_equivalent`
    likewise at a gap of one margin. The others stop at the first answer that is not open.
    """
    random = np.random.default_rng((seed, round(100 * gap)))
    ever, answers, seeds = np.zeros((draws, 2)), [], []
    for draw in range(draws):
        found = None
        for read in looks(random, noise, gap, margin):
            low, high = read.interval
            ever[draw] = np.maximum(ever[draw], (not low <= 0 <= high, read.margin_interval.within(margin)))
            if found is None and read.answer != "open":
                found = (read.answer, read.seeds)
        answer, count = found or ("open", preregistration().stopping.most)
        answers.append(answer)
        seeds.append(count)
    shares = {
        name: round(answers.count(name) / draws, 4) for name in ("better", "worse", "equivalent", "open")
    }
    return {
        "ever_different": round(float(ever[:, 0].mean()), 4),
        "ever_equivalent": round(float(ever[:, 1].mean()), 4),
        **shares,
        "mean_seeds": round(float(np.mean(seeds)), 2),
        "median_seeds": float(np.median(seeds)),
    }


def saved(row: dict[str, Any], gap: float, margin: float) -> dict[str, Any]:
    """Return the seeds of a fixed plan with the same power at a gap, in units of the residual deviation."""
    registered = preregistration()
    kind: Literal["equivalence", "difference"] = "equivalence" if gap == 0 else "difference"
    power = row["equivalent"] if gap == 0 else row["better"]
    plan = registered.model_copy(update={"power": min(0.995, max(0.06, power))})
    prior = registered.prior_df_at_most
    fixed = seeds_needed(plan, margin if gap == 0 else gap, kind=kind, sd=2**0.5, prior_df=prior)
    share = None if fixed is None else round(1 - row["mean_seeds"] / fixed, 3)
    return {"fixed_seeds": fixed, "saved": share}


def main() -> None:
    """Print and write both tables."""
    rows = []
    for name, noise in NOISES.items():
        for seeds in SEEDS:
            for method, found in fixed_plan(noise, seeds, draws=FIXED).items():
                row: dict[str, Any] = {"noise": name, "seeds": seeds, "variance": method}
                rows.append(row | found | {"draws": FIXED})
                print(rows[-1], flush=True)
    results.write("verdicts", rows)
    rows = []
    for name, noise in LOOKED_AT.items():
        unit = float(noise.spreads[:2].mean())
        for gap in (0.0, 0.5, 0.75, 1.0, 1.5) if name == "normal" else (0.0, 1.0):
            found = sequential_plan(noise, gap * unit, draws=SEQUENTIAL, margin=unit)
            row = {"noise": name, "gap_in_sd": gap, "margin_in_sd": 1.0, **found}
            rows.append(row | (saved(row, gap, 1.0) if name == "normal" else {}) | {"draws": SEQUENTIAL})
            print(rows[-1], flush=True)
    results.write("verdicts-sequential", rows)


if __name__ == "__main__":
    main()
