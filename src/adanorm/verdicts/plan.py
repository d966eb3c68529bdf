"""Plans: one type says what decides a comparison, one function reads scores by any plan."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

import numpy as np

from adanorm.stats.comparison import Comparison, compare_gaps
from adanorm.stats.designs import Design, moments_of
from adanorm.stats.sequential import Levels, Looks, last_look
from adanorm.stats.variance import ROUNDING, Spread, TaskVariance, spread_of
from adanorm.verdicts.quantities import Quantity


@dataclass(frozen=True)
class Plan:
    """What decides comparisons on one data set: which seeds are read, when, by which quantity.

    A data set has a list of plans, `preregistration.plans_of`; the first plan is one of them. A
    study's rule makes a plan for each column.
    """

    name: str
    task: str
    scale: str  # of the runs
    first: int  # the first seed
    last: int
    looks: Looks  # the numbers of shared seeds after which it is read
    quantity: Quantity
    margin: float  # the smallest difference that matters; 0: none is registered
    # Up to so many shared seeds are read once, as a fixed plan with a variance of all norms.
    planned: int = 0
    # The interval that must lie within the margin: the 90 % one is two one-sided tests of 5 %.
    size_interval: Literal["90 %", "95 %"] = "90 %"
    # Whose noise of test examples an interval allows for; `own`: the pair's, shrunk, with a floor.
    examples: Literal["none", "claimed pairs", "pooled", "own"] = "pooled"
    decision: Literal["of the last look", "stands"] = "of the last look"
    groups: Design = "paired"  # by seed, or independent
    reads: tuple[int, ...] = ()  # the looks that are read; none named: all
    overrides: tuple[str, ...] = ()  # settings in which the runs differ from the scale's own
    folds: int = 0  # `data.fold` from 1 on; a gap is then a fold's mean over seeds
    overlap: float = 0.0  # of folds: test examples per training example

    def seeds_read(self, shared: int) -> int | None:
        """Return how many of the shared seeds are read; None before the first look."""
        if 2 <= shared <= self.planned:  # one gap does not tell how gaps vary
            return shared
        return last_look(self.reads or self.looks.after, shared)

    def read_in_turn(self, shared: int) -> list[int]:
        """Return the looks to read until one decides: if a decision stands, all; else the last."""
        last = self.seeds_read(shared)
        if last is None:
            return []
        if self.decision == "of the last look":
            return [last]
        return [look for look in self.reads or self.looks.after if look <= last]

    def levels(self, seeds: int) -> Levels:
        """Return the levels of the tests after so many seeds."""
        is_only_look = self.looks.after == (seeds,)
        if seeds <= self.planned or is_only_look:
            levels = Levels(self.looks.level, 2 * self.looks.level)
        else:
            levels = self.looks.levels(seeds)
        if self.size_interval == "95 %":
            return Levels(levels.difference, levels.difference)
        return levels


def compare_by(
    plan: Plan,
    samples: Sequence[TaskVariance],
    rows: Sequence[str],
    **facts: Any,
) -> Comparison | None:
    """Return the comparison of rows as a plan reads their scores; None before its first look.

    Of rows (a, b) it compares a with b; of (a, b, c, d) a's lead over b with c's over d. `samples`
    has the scores of all rows, one sample for each fold of the plan. `facts` are further fields of
    the comparison, such as the noise of test examples. None too if gaps do not vary.
    """
    shared = [sample.shared(*rows) for sample in samples]
    seeds = plan.seeds_read(min(map(len, shared)))
    if seeds is None:
        return None
    by_sample = []
    for sample, common in zip(samples, shared, strict=True):
        by_sample.append([_gap(sample, rows, seed) for seed in common[:seeds]])
    gaps = [fmean(of_fold) for of_fold in by_sample] if plan.folds else by_sample[0]
    if seeds <= plan.planned:
        spread = samples[0].of_difference(rows[1], rows[0])
    elif plan.groups == "independent":
        spread = _spread_of_groups(samples[0], rows, shared[0][:seeds])
    else:
        resolution = 0.0 if plan.folds else samples[0].resolution
        largest = max(sample.largest for sample in samples)
        spread = spread_of(gaps, resolution, largest=largest)
    return comparison_of(plan, gaps, seeds, spread, **facts)


def comparison_of(
    plan: Plan,
    gaps: Sequence[float],
    seeds: int,
    spread: Spread | None,
    **facts: Any,
) -> Comparison | None:
    """Return the comparison of gaps, by seed or by fold, at a plan's look after `seeds` seeds.

    None without a spread.
    """
    if spread is None:
        return None
    return compare_gaps(
        gaps,
        plan.margin,
        level=plan.looks.level,
        levels=plan.levels(seeds),
        spread=spread,
        overlap=plan.overlap,
        design=plan.groups,
        **facts,
    )


def _spread_of_groups(
    sample: TaskVariance, rows: Sequence[str], seeds: Sequence[int]
) -> Spread | None:
    """Return the spread of a gap of two rows whose seeds share nothing (Welch 1947); None without any."""
    first, second = (np.array([sample.scores[row][seed] for seed in seeds]) for row in rows)
    moments = moments_of(first, second)
    sd = max(moments.error * math.sqrt(len(seeds)), sample.resolution / math.sqrt(6))
    return Spread(sd, moments.df) if sd > ROUNDING * sample.largest else None


def _gap(sample: TaskVariance, rows: Sequence[str], seed: int) -> float:
    scores = [sample.scores[row][seed] for row in rows]
    return sum(sign * score for sign, score in zip((1, -1, -1, 1), scores, strict=False))
