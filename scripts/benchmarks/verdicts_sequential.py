"""How often the plan with a look after every seed errs: `python -m scripts.benchmarks.verdicts_sequential`.

Size, power and seeds of the registered plan, of two norms that differ by a known gap; a round is a drawn
task of seven norms, followed from the first look to the most seeds. The draws are seeded: the same
numbers on any machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from adanorm.reporting.verdicts.comparison import Comparison
from adanorm.reporting.verdicts.planning import seeds_needed
from adanorm.reporting.verdicts.preregistration import preregistration
from adanorm.reporting.verdicts.sequential import look_levels
from adanorm.reporting.verdicts.variance import TaskVariance
from scripts.benchmarks.harness import Options, Row, run_benchmark
from scripts.benchmarks.verdicts import NOISES, NORMS, Noise

# The first two norms are those compared.
LOOKED_AT = {
    "normal": NOISES["normal"],
    "quantized": NOISES["quantized"],
    "unequal, of the two noisiest": Noise(tuple(np.geomspace(2, 0.5, len(NORMS)))),
    "unequal, of the two calmest": Noise(tuple(np.geomspace(0.5, 2, len(NORMS)))),
}


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
        levels = look_levels(seeds, level=registered.level, **plan.model_dump())
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


def measure(options: Options) -> Iterator[Row]:
    """Yield a row a noise and true gap."""
    for name, noise in LOOKED_AT.items():
        unit = float(noise.spreads[:2].mean())
        for gap in (0.0, 0.5, 0.75, 1.0, 1.5) if name == "normal" else (0.0, 1.0):
            found = sequential_plan(noise, gap * unit, draws=options.rounds, margin=unit)
            row = {"noise": name, "gap_in_sd": gap, "margin_in_sd": 1.0, **found}
            yield row | (saved(row, gap, 1.0) if name == "normal" else {}) | {"rounds": options.rounds}


if __name__ == "__main__":
    run_benchmark(measure, rounds=2000)
