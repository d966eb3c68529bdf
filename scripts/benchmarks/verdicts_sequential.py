"""How often the plan with a look after every seed errs: `python -m scripts.benchmarks.verdicts_sequential`.

Size, power and seeds of the registered plan, of two norms that differ by a known gap; a round is a pair of
norms, followed from the first look to the most seeds. The draws are seeded: the same numbers on any
machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adanorm.verdicts.planning import seeds_needed
from adanorm.verdicts.preregistration import preregistration
from adanorm.verdicts.sequential import look_levels
from scripts.benchmarks.harness import Options, Row, run_benchmark
from scripts.benchmarks.verdicts import NOISES, NORMS, Noise, Numbers

# The first two norms are those compared.
LOOKED_AT = {
    "normal": NOISES["normal"],
    "quantized": NOISES["quantized"],
    "unequal, of the two noisiest": Noise(tuple(np.geomspace(2, 0.5, len(NORMS)))),
    "unequal, of the two calmest": Noise(tuple(np.geomspace(0.5, 2, len(NORMS)))),
    "heavy tails, t(4)": NOISES["heavy tails, t(4)"],
}
WIDE = 5.0  # deviations: a margin that a few seeds could show
# Deviations of a score: what the choice of test examples adds, as ours on De-En and RT.
EXAMPLE_ERRORS = (0.1, 0.3)


class Looks(NamedTuple):
    """What every look after the planned seeds says, (draws, looks): of a difference, of equivalence."""

    different: NDArray[np.bool_]
    above: NDArray[np.bool_]  # different, with a gap above 0
    equivalent: NDArray[np.bool_]


def looks(gaps: Numbers, margin: float, step: float = 0.0, example_error: float = 0.0) -> Looks:
    """Return the looks at gaps, (draws, seeds): tests by their own variance, all draws at a time."""
    from scipy.stats import t

    registered = preregistration()
    plan = registered.stopping
    seeds = np.arange(plan.planned, plan.most + 1)
    levels = np.array(
        [
            look_levels(n, looks=plan.looks, level=registered.level, spending=plan.spending)
            for n in seeds.tolist()
        ]
    )
    means, squares = ((gaps**power).cumsum(1)[:, plan.planned - 1 :] / seeds for power in (1, 2))
    variances = np.maximum((squares - means**2) * seeds / (seeds - 1), max(step**2 / 6, 1e-18))
    errors = np.hypot(np.sqrt(variances / seeds), example_error)
    bounds, reaches = (t.isf(level / 2, seeds - 1) * errors for level in levels.T)
    return Looks(np.abs(means) > bounds, means > bounds, np.abs(means) + reaches < margin)


def sequential_plan(
    noise: Noise, gap: float, *, draws: int, margin: float, seed: int = 1, example_error: float = 0.0
) -> dict[str, float]:
    """Return what the plan with a look after every seed comes to where the true gap is `gap`.

    `ever_different` goes on after *equivalent* and so bounds the error at a gap of 0; `ever_equivalent`
    likewise at a gap of one margin. The others stop at the first answer that is not open. `or_planned`:
    different at a look, or by a fixed plan of the planned seeds that was read first. Examples add the same
    to every seed's gap.
    """
    plan = preregistration().stopping
    random = np.random.default_rng((seed, round(100 * gap)))
    gaps = np.array([np.diff(noise.draw(random, plan.most, gap)[:2], axis=0)[0] for _ in range(draws)])
    gaps += example_error * random.standard_normal((draws, 1))
    found = looks(gaps, margin, noise.step, example_error)
    ends = found.different | found.equivalent
    ended, place = ends.any(1), (np.arange(draws), ends.argmax(1))
    seeds = np.where(ended, plan.planned + place[1], plan.most)
    equivalent = ended & found.equivalent[place]
    better = ended & ~equivalent & found.above[place]
    shares = {
        "ever_different": found.different.any(1),
        "ever_equivalent": found.equivalent.any(1),
        "or_planned": found.different.any(1) | _differ_when_planned(gaps, example_error),
        "better": better,
        "worse": ended & ~equivalent & ~better,
        "equivalent": equivalent,
        "open": ~ended,
    }
    return {
        **{name: round(float(share.mean()), 4) for name, share in shares.items()},
        "mean_seeds": round(float(seeds.mean()), 2),
        "median_seeds": float(np.median(seeds)),
    }


def _differ_when_planned(gaps: Numbers, example_error: float) -> NDArray[np.bool_]:
    """Return where the planned seeds differ from 0 in a fixed plan by their own variance, (draws,)."""
    from scipy.stats import t

    registered = preregistration()
    count = registered.stopping.planned
    first = gaps[:, :count]
    errors = np.hypot(first.std(1, ddof=1) / np.sqrt(count), example_error)
    differ: NDArray[np.bool_] = np.abs(first.mean(1)) > t.isf(registered.level / 2, count - 1) * errors
    return differ


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
    """Yield a row a noise, true gap and margin."""
    for name, noise in LOOKED_AT.items():
        unit = float(noise.spreads[:2].mean())
        gaps = (0.0, 0.5, 0.75, 1.0, 1.5) if name == "normal" else (0.0, 1.0)
        for gap, margin in [*((gap, 1.0) for gap in gaps), (WIDE, WIDE)]:
            found = sequential_plan(noise, gap * unit, draws=options.rounds, margin=margin * unit)
            row = {"noise": name, "gap_in_sd": gap, "margin_in_sd": margin, **found}
            is_planned = name == "normal" and margin < WIDE
            yield row | (saved(row, gap, margin) if is_planned else {}) | {"rounds": options.rounds}
    normal = LOOKED_AT["normal"]
    for error in EXAMPLE_ERRORS:
        found = sequential_plan(normal, 0.0, draws=options.rounds, margin=WIDE, example_error=error)
        row = {"noise": f"normal, and of examples {error:g}", "gap_in_sd": 0.0, "margin_in_sd": WIDE}
        yield row | found | {"rounds": options.rounds}


if __name__ == "__main__":
    run_benchmark(measure, rounds=20_000)
