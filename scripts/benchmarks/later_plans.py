"""Simulate how often the plans of conf/plans/later.yaml err.

Run it as `python -m scripts.benchmarks.later_plans`.

Scores are drawn for seeds and test examples, so the noise of examples is estimated as a plan does it: from
the pair itself, shrunk for few seeds towards another pair, with its floor. A decision at a look stands.
Writes results/bench/later_plans.csv. All deviations are in units of one score's over seeds.
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from adanorm.config.paths import PROJECT
from adanorm.stats.comparison import compare
from adanorm.stats.designs import Design
from adanorm.stats.example_noise import example_error, example_noise
from adanorm.stats.sequential import Looks, Numbers

DRAWS, EXAMPLES = 4000, 100
SPENDING = 1.5
FILE = PROJECT / "results" / "bench" / "later_plans.csv"


class Plan(NamedTuple):
    """The looks of a plan, those that it reads, and its design."""

    name: str
    after: tuple[int, ...]
    reads: tuple[int, ...]
    design: Design


PLANS = (
    Plan("third look of fresh", (10, 20, 40), (40,), "paired"),
    Plan("small-fresh", (6, 10, 16), (6, 10, 16), "independent"),
    Plan("regularized", (6, 10, 20), (6, 10, 20), "paired"),
    Plan("positive-control", (6, 10), (6, 10), "independent"),
    Plan("craft", (10, 20), (10, 20), "paired"),
)


class Truth(NamedTuple):
    """A true gap and margin, the deviation of a gap over test sets, and the correlation over seeds."""

    gap: float
    margin: float
    example_sd: float
    correlation: float


def drawn(random: np.random.Generator, truth: Truth, seeds: int) -> tuple[Numbers, Numbers]:
    """Return the scores (seeds, examples) of two norms, the first ahead by the true gap on average.

    A score's deviation over seeds is 1. The gap's mean over examples has the deviation
    `example_sd` over test sets, whatever the seeds.
    """
    shared = random.standard_normal((seeds, 1)) * np.sqrt(truth.correlation)
    own = random.standard_normal((2, seeds, 1)) * np.sqrt(1 - truth.correlation)
    of_examples = random.standard_normal(EXAMPLES) * truth.example_sd * np.sqrt(EXAMPLES)
    rest = random.standard_normal((2, seeds, EXAMPLES)) * 3
    rest -= rest.mean(axis=2, keepdims=True)  # a seed's own deviation is 1 in all
    first = truth.gap + shared + own[0] + of_examples / 2 + rest[0]
    second = shared + own[1] - of_examples / 2 + rest[1]
    return first, second


def decided(first: Numbers, second: Numbers, plan: Plan, truth: Truth, others: float) -> str:
    """Return the answer at the first look that decides, or `open`."""
    looks = Looks(plan.after, SPENDING)
    for seeds in plan.reads:
        scores = first[:seeds].mean(axis=1), second[:seeds].mean(axis=1)
        comparison = compare(
            *scores,
            truth.margin,
            paired=plan.design == "paired",
            levels=looks.levels(seeds),
        )
        assert comparison is not None, "scores that are drawn differ"
        noise = example_noise(first[:seeds] - second[:seeds])
        answer = replace(comparison, example_error=example_error(noise, others)).answer
        if answer != "open":
            return answer
    return "open"


def simulated(plan: Plan, truth: Truth) -> dict[str, float]:
    """Return the share of each answer over DRAWS pairs of norms."""
    random = np.random.default_rng(0)
    counts = dict.fromkeys(("better", "worse", "equivalent", "open"), 0)
    for _ in range(DRAWS):
        first, second = drawn(random, truth, plan.after[-1])
        pair_beside = drawn(random, truth, plan.reads[0])
        others = max(0.0, example_noise(pair_beside[0] - pair_beside[1]).variance)
        counts[decided(first, second, plan, truth, others)] += 1
    return {answer: count / DRAWS for answer, count in counts.items()}


def rows() -> Iterator[Sequence[object]]:
    """Yield a row per plan and truth: no gap, a gap as large as the margin, a gap of two margins."""
    for plan in PLANS:
        correlation = 0.4 if plan.design == "paired" else 0.0
        for example_sd in (0.0, 0.1, 0.3):
            for gap, margin in ((0.0, 0.5), (0.0, 1.0), (0.5, 0.5), (1.0, 1.0), (2.0, 1.0)):
                truth = Truth(gap, margin, example_sd, correlation)
                shares = simulated(plan, truth)
                yield plan.name, plan.design, *truth, *shares.values()


def main() -> None:
    """Write the table."""
    header = ("plan", "design", *Truth._fields, "better", "worse", "equivalent", "open")
    with FILE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        for row in rows():
            print(*row, flush=True)
            writer.writerow(row)


if __name__ == "__main__":
    main()
