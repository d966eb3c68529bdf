"""What a trial can show: how often it would call a norm better that truly is."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from adanorm.stats.comparison import Answer
from adanorm.stats.sequential import Numbers
from adanorm.trials.inequality import Lead, verdict_on
from adanorm.trials.rules import Rules

DRAWS = 400  # simulated trials: a share of one half has a standard error of 2.5 %


class BedNoise(NamedTuple):
    """The noise of a bed in margins: of one seed's gap, and of the choice of test examples."""

    seed: float
    examples: float


def share_better(
    rules: Rules,
    beds: Sequence[BedNoise],
    lead: float,
    last: int,
) -> float:
    """Return the share of simulated trials, with the looks up to `last`, that say *better*.

    The norm truly leads by `lead` margins on every bed.
    """
    random = np.random.default_rng(0)
    better = 0
    for _ in range(DRAWS):
        gaps = []
        for bed in beds:
            center = lead + bed.examples * random.standard_normal()
            gaps.append(center + bed.seed * random.standard_normal(last))
        better += simulated_answer(rules, beds, np.array(gaps)) == "better"
    return better / DRAWS


def simulated_answer(rules: Rules, beds: Sequence[BedNoise], gaps: Numbers) -> Answer:
    """Return the answer on gaps (beds, seeds), at the first look that decides."""
    answer: Answer = "open"
    for look in rules.looks:
        if look > gaps.shape[1] or answer != "open":
            break
        leads = []
        for bed, on_bed in zip(beds, gaps[:, :look], strict=True):
            seed_error = float(on_bed.std(ddof=1)) / math.sqrt(look)
            error = math.hypot(seed_error, bed.examples)
            leads.append(Lead(float(on_bed.mean()), error, look - 1))
        answer = verdict_on(leads, rules.plan_of_looks, look).answer
    return answer
