"""One number over all data sets: the mean lead of a claim's norm, in units of the margin."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from adanorm.stats.comparison import Answer, Interval, student_interval
from adanorm.stats.sequential import Numbers
from adanorm.stats.summary import (
    Multiple,
    Posterior,
    RandomEffects,
    multiple_of,
    posterior,
    random_effects,
)
from adanorm.verdicts.claims import TaskAnswer
from adanorm.verdicts.later_plans import later_plans
from adanorm.verdicts.pair import published_gap


class Lead(NamedTuple):
    """A lead on one data set in margins, with its standard error from seeds and test examples."""

    task: str
    seeds: str
    plan: str
    margin: float
    value: float
    error: float
    df: float
    paper: float | None  # the paper's lead, in margins

    @property
    def interval(self) -> Interval:
        """The 95 % interval, as if it were read once."""
        return student_interval(self.value, self.error, self.df)


class Summary(NamedTuple):
    """What the data sets say together; all but `multiple` is in margins.

    `multiple` is our lead as a multiple of the paper's; None if the paper has no lead.
    """

    leads: tuple[Lead, ...]
    effects: RandomEffects
    multiple: Multiple | None
    posterior: Posterior

    @property
    def answer(self) -> Answer:
        """The registered answer in one word.

        *Equivalent* by the 90 % interval of the mean, which goes first, or else by the 95 % one.
        """
        if self.is_within:
            return "equivalent"
        interval = self.effects.interval()
        if interval.low > 0:
            return "better"
        return "worse" if interval.high < 0 else "open"

    @property
    def is_within(self) -> bool:
        """Whether the 90 % interval of the mean lies within the margin."""
        low, high = self.effects.interval(2 * later_plans().level)
        return low > -1 and high < 1

    def without(self, task: str) -> RandomEffects:
        """Return the mean over the other data sets, which must be two or more."""
        effects, errors, _ = _columns([lead for lead in self.leads if lead.task != task])
        return random_effects(effects, errors)


def summary(answers: Sequence[TaskAnswer]) -> Summary | None:
    """Return the summary of answers, each by the newest plan that governs its data set, at its last look.

    Errors are those of a single reading, with the pair's own noise of test examples. None with
    fewer than two data sets.
    """
    leads = list(filter(None, map(_lead, answers)))
    if len(leads) < 2:
        return None
    effects, errors, dfs = _columns(leads)
    multiple = None
    in_paper = [lead for lead in leads if lead.paper is not None]
    if any(lead.paper for lead in in_paper):
        reference = np.array([lead.paper for lead in in_paper])
        multiple = multiple_of(*_columns(in_paper), reference)
    return Summary(
        tuple(leads),
        random_effects(effects, errors),
        multiple,
        posterior(effects, errors, dfs),
    )


def _columns(leads: Sequence[Lead]) -> tuple[Numbers, Numbers, Numbers]:
    """Return the values, errors and degrees of freedom, each (data sets,)."""
    columns = np.array([(lead.value, lead.error, lead.df) for lead in leads])
    values, errors, dfs = columns.T
    return values, errors, dfs


def _lead(answer: TaskAnswer) -> Lead | None:
    comparison = answer.by_own_noise
    if comparison is None or not comparison.margin:
        return None
    margin = comparison.margin
    better, worse = reversed(later_plans().norms_of_summary)
    gap = published_gap(answer.task, better, worse)
    return Lead(
        task=answer.task,
        seeds=answer.seeds,
        plan=answer.plan.name,
        margin=margin,
        value=comparison.gap / margin,
        error=comparison.error / margin,
        df=comparison.df,
        paper=gap and gap.value / margin,
    )
