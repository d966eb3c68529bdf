"""How often the plans with several looks err: `python -m scripts.benchmarks.verdicts_sequential`.

Size, power and number of seeds of each registered plan, for two simulated norms that differ by a
known gap. A round is one pair of norms, from the first look to the last. Draws are seeded, so every
machine gives the same numbers.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

from adanorm.stats.sequential import Looks, seeds_needed
from adanorm.verdicts.preregistration import preregistration
from scripts.benchmarks.harness import Options, Row, run_benchmark
from scripts.benchmarks.verdicts import NOISES, NORMS, Noise, Numbers

# The first two norms are compared.
LOOKED_AT = {
    "normal": NOISES["normal"],
    "quantized": NOISES["quantized"],
    "unequal, of the two noisiest": Noise(tuple(np.geomspace(2, 0.5, len(NORMS)))),
    "unequal, of the two calmest": Noise(tuple(np.geomspace(0.5, 2, len(NORMS)))),
    "heavy tails, t(4)": NOISES["heavy tails, t(4)"],
}
WIDE = 5.0  # a margin, in deviations, within which a few seeds can show a gap to lie
# Standard errors that the choice of test examples adds, in deviations of a score: De-En's and RT's.
EXAMPLE_ERRORS = (0.1, 0.3)


def plans() -> dict[str, Looks]:
    """Return the looks of the registered plans by name."""
    registered = preregistration()
    return {name: registered.looks_of(name) for name in ("first", *registered.plans)}


class Answers(NamedTuple):
    """The answers at every look of a plan, each (draws, looks)."""

    different: NDArray[np.bool_]
    above: NDArray[np.bool_]  # different, and the gap is above 0
    equivalent: NDArray[np.bool_]


def looks(
    scores: Numbers,
    margin: float,
    plan: Looks,
    *,
    borrowed: float = 0.0,
    step: float = 0.0,
    example_error: float = 0.0,
) -> Answers:
    """Return the answers on the first two norms at every look, from scores (draws, norms, seeds).

    `borrowed` are the degrees of freedom of the other norms' variance; 0: the comparison's own
    alone.
    """
    seeds, levels = (
        np.array(plan.after),
        [plan.levels(count) for count in plan.after],
    )
    gaps = scores[:, 1] - scores[:, 0]
    means, squares = ((gaps**power).cumsum(1)[:, seeds - 1] / seeds for power in (1, 2))
    own, df = (
        np.maximum(0.0, squares - means**2) * seeds / 2,
        seeds - 1.0,
    )
    if borrowed:
        residual, residual_df = _residual(scores, seeds)
        own += (residual - own) * borrowed / (residual_df - df)
        df = df + borrowed
    variances = np.maximum(2 * own / df, max(step**2 / 6, 1e-18))
    errors = np.hypot(np.sqrt(variances / seeds), example_error)
    bounds, reaches = (t.isf(part / 2, df) * errors for part in np.array(levels).T)
    return Answers(
        np.abs(means) > bounds,
        means > bounds,
        np.abs(means) + reaches < margin,
    )


def _residual(scores: Numbers, seeds: NDArray[np.int_]) -> tuple[Numbers, Numbers]:
    """Return the residual sum of squares at each look, (draws, looks), and its df."""
    squares = []
    for count in seeds:
        of_seeds = scores[..., :count] - scores[..., :count].mean(1, keepdims=True)
        squares.append(np.square(of_seeds - of_seeds.mean(2, keepdims=True)).sum((1, 2)))
    return np.stack(squares, 1), (scores.shape[1] - 1) * (seeds - 1.0)


def sequential_plan(
    noise: Noise,
    gap: float,
    *,
    draws: int,
    margin: float,
    plan: Looks | None = None,
    borrowed: float = 0.0,
    example_error: float = 0.0,
) -> dict[str, float]:
    """Return the shares of a plan's answers, and its seeds, where the true gap is `gap`.

    Default: first plan.

    `ever_different` also counts looks after *equivalent*, so it bounds the error at a gap of 0;
    `ever_equivalent` likewise at a gap of one margin. The others stop at the first answer that is
    not open. `or_planned`: different at a look, or in a fixed plan read first on the planned seeds.
    Test examples (`example_error`) move the gaps of all seeds alike.
    """
    plan = plan or preregistration().looks_of("first")
    random = np.random.default_rng((1, round(100 * gap)))
    scores = np.array([noise.draw(random, plan.after[-1], gap) for _ in range(draws)])
    scores[:, 1] += example_error * random.standard_normal((draws, 1))
    answers = looks(
        scores,
        margin,
        plan,
        borrowed=borrowed,
        step=noise.step,
        example_error=example_error,
    )
    gaps = scores[:, 1] - scores[:, 0]
    ends = answers.different | answers.equivalent
    ended, last = ends.any(1), (np.arange(draws), ends.argmax(1))
    seeds = np.where(ended, np.array(plan.after)[last[1]], plan.after[-1])
    equivalent = ended & answers.equivalent[last]
    better = ended & ~equivalent & answers.above[last]
    ever = answers.different.any(1)
    draws_by_end = {
        "ever_different": ever,
        "ever_equivalent": answers.equivalent.any(1),
        "or_planned": ever | _differ_when_planned(gaps, example_error),
        "better": better,
        "worse": ended & ~equivalent & ~better,
        "equivalent": equivalent,
        "open": ~ended,
    }
    shares = {name: round(float(drawn.mean()), 4) for name, drawn in draws_by_end.items()}
    return {
        **shares,
        "mean_seeds": round(float(seeds.mean()), 2),
        "median_seeds": float(np.median(seeds)),
    }


def _differ_when_planned(gaps: Numbers, example_error: float) -> NDArray[np.bool_]:
    """Return in which draws (draws,) a fixed plan of the planned seeds finds a difference."""
    registered = preregistration()
    count = registered.stopping.planned
    first = gaps[:, :count]
    errors = np.hypot(first.std(1, ddof=1) / np.sqrt(count), example_error)
    return np.abs(first.mean(1)) > t.isf(registered.level / 2, count - 1) * errors


def saved(row: dict[str, Any], gap: float, margin: float) -> dict[str, Any]:
    """Return the seeds of a fixed plan with the same power, and the share saved.

    A gap is in deviations.
    """
    registered = preregistration()
    power = row["equivalent"] if gap == 0 else row["better"]
    plan = registered.looks_of("first")._replace(power=min(0.995, max(0.06, power)))
    need = partial(
        seeds_needed,
        plan,
        sd=2**0.5,
        prior_df=registered.prior_df_at_most,
    )
    fixed = need(margin, kind="equivalence") if gap == 0 else need(gap, kind="difference")
    share = None if fixed is None else round(1 - row["mean_seeds"] / fixed, 3)
    return {"fixed_seeds": fixed, "saved": share}


def measure(options: Options) -> Iterator[Row]:
    """Yield one row per plan, noise, true gap and margin.

    `fresh` comes again with a borrowed variance.
    """
    cases = [(name, plan, 0.0) for name, plan in plans().items()]
    cases.append(
        (
            "fresh, borrowed variance",
            plans()["fresh"],
            preregistration().prior_df_at_most,
        )
    )
    for plan_name, plan, borrowed in cases:
        shares = partial(
            sequential_plan,
            draws=options.rounds,
            plan=plan,
            borrowed=borrowed,
        )
        for name, noise in LOOKED_AT.items():
            unit = float(noise.spreads[:2].mean())
            gaps = (0.0, 0.5, 0.75, 1.0, 1.5) if name == "normal" else (0.0, 1.0)
            for gap, margin in [
                *((gap, 1.0) for gap in gaps),
                (WIDE, WIDE),
            ]:
                row = {
                    "plan": plan_name,
                    "noise": name,
                    "gap_in_sd": gap,
                    "margin_in_sd": margin,
                }
                row |= shares(noise, gap * unit, margin=margin * unit)
                is_planned = plan_name == "first" and name == "normal" and margin < WIDE
                yield (
                    row
                    | (saved(row, gap, margin) if is_planned else {})
                    | {"rounds": options.rounds}
                )
        for error in EXAMPLE_ERRORS:
            row = {
                "plan": plan_name,
                "noise": f"normal, and of examples {error:g}",
            }
            row |= {"gap_in_sd": 0.0, "margin_in_sd": WIDE}
            row |= shares(
                LOOKED_AT["normal"],
                0.0,
                margin=WIDE,
                example_error=error,
            )
            yield row | {"rounds": options.rounds}


if __name__ == "__main__":
    run_benchmark(measure, rounds=20_000)
