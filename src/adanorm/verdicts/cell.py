"""The runs of one norm on a task over seeds (`Cell`), as text and beside the paper's number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from statistics import fmean, median
from typing import Literal, TypeAlias

from adanorm.config.experiment import Experiment
from adanorm.config.titles import METRICS, mean_text
from adanorm.records import reader
from adanorm.records.baselines import has_learned
from adanorm.records.integrity import OUTPUTS
from adanorm.records.published import Published, departures_from_paper, published
from adanorm.records.result import Result, Status
from adanorm.stats.variance import Spread, prediction
from adanorm.verdicts.quantities import Quantity, metric_of, value_of

Fate: TypeAlias = Status | Literal["did not learn"]
FATES: tuple[Fate, ...] = ("diverged", "did not learn", "failed")  # scores do not count


@dataclass(frozen=True)
class Cell:
    """The runs of one norm on a task that have ended, and their results in the same order."""

    metric: str
    planned: int = 0  # number of seeds that the study asks for
    runs: tuple[Experiment, ...] = ()
    results: tuple[Result, ...] = ()
    # The scores of runs that learned; larger is better.
    by_seed: Mapping[int, float] = field(default_factory=dict)
    unlearned: tuple[int, ...] = ()  # seeds of the runs that are no better than a trivial baseline
    paper: Published | None = None

    @property
    def scores(self) -> list[float]:
        """The test scores of the runs that are done, in the metric's own unit and direction."""
        return [
            result.test_score(self.metric) for result in self.results if result.status == "done"
        ]

    def values(self, quantity: Quantity = "test") -> dict[int, float]:
        """Return by seed the value of a quantity of each run that is done and has it, unsigned."""
        values = {}
        for run, result in zip(self.runs, self.results, strict=True):
            if result.status != "done":
                continue
            value = value_of(run, result, quantity, self.metric)
            if value is not None:
                values[run.seed] = value
        return values

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of the runs."""
        return tuple(run.folder() for run in self.runs)

    @property
    def setback(self) -> str:
        """How many runs diverged or, if none did, did not learn, such as 'diverged 1/3'.

        Empty if all learned.
        """
        fates: tuple[Fate, ...] = ("diverged", "did not learn")
        for fate in fates:
            if count := self.count(fate):
                return f"{fate} {count}/{len(self.results)}"
        return ""

    @property
    def recorded(self) -> set[int]:
        """The seeds whose runs have ended without failing."""
        return {result.seed for result in self.results if result.status != "failed"}

    @property
    def seconds(self) -> float | None:
        """The median seconds of the runs that learned; None if no run has its time on record."""
        seconds = []
        for result in self.results:
            has_learned = result.status == "done" and result.seed not in self.unlearned
            if has_learned and result.seconds_alone:
                seconds.append(result.seconds_alone)
        return median(seconds) if seconds else None

    @property
    def example(self) -> float:
        """By how much one test example changes a score in percent.

        0 for other scores and without outputs.
        """
        is_share = METRICS[self.metric].unit == "%"
        return _step(self.runs[0].folder()) if self.runs and is_share else 0.0

    def count(self, fate: Fate) -> int:
        """Return how many runs ended with a status, or did not learn."""
        if fate == "did not learn":
            return len(self.unlearned)
        return sum(result.status == fate for result in self.results)

    @property
    def text(self) -> str:
        """`mean ± deviation` (k/n seeds if some are missing), `Diverge (k/n)`, `failed` or `-`."""
        ended = len(self.results)
        if diverged := self.count("diverged"):
            return f"Diverge ({diverged}/{ended})"
        if not self.scores:
            return "failed" if ended else "-"
        text = mean_text(self.scores, METRICS[self.metric].decimals(fmean(self.scores)))
        if len(self.scores) < self.planned:
            text += f" ({len(self.scores)}/{self.planned} seeds)"
        if self.unlearned:
            text += f", did not learn ({len(self.unlearned)}/{ended})"
        return text

    def verdict(self, spread: Spread | None) -> str:
        """Return whether one more run could have scored the paper's number, given the `spread`.

        *consistent*, *inconclusive* or *differs*, with its percentile; no verdict on an
        unconfirmed number.
        """
        number = self.paper
        ended = len(self.results)
        diverged = self.count("diverged")
        if not ended or number is None:
            return "" if ended else "not run"
        if not number.confirmed:
            return "no verdict"
        if diverged or number.value is None:
            agree = diverged == ended and number.value is None
            return "consistent" if agree else f"differs: diverges {diverged}/{ended}"
        if self.unlearned:
            return f"did not learn ({len(self.unlearned)}/{ended})"
        if not self.scores or spread is None or spread.sd == 0:
            return "inconclusive"
        mean = fmean(self.scores)
        count = len(self.scores)
        position = prediction(
            number.value, rounding=number.rounding, mean=mean, count=count, spread=spread
        )
        return f"{position.verdict} ({position.percentile:.0f} %)"


def cell(experiments: Sequence[Experiment], *, metric: str | None = None) -> Cell:
    """Return the cell of runs that differ only in their seed, with all other seeds on record.

    If `metric` is not the task's own, the cell shows it where runs have it, and has no number of
    the paper.
    """
    first = experiments[0]
    seeds = {experiment.seed for experiment in experiments}
    runs = [*experiments, *(run for run in reader.runs_on_record(first) if run.seed not in seeds)]
    full_cell = cell_of(first, runs)
    if metric and any(metric in (result.test or {}) for result in full_cell.results):
        full_cell = cell_of(first, runs, metric=metric)
    paper = published(first.task.name, first.norm.name)
    is_compared = paper is not None and full_cell.metric == first.task.metric
    if not is_compared or departures_from_paper(first) is not None:
        paper = None
    return replace(full_cell, planned=len(experiments), paper=paper)


def cell_on_record(first: Experiment, quantity: Quantity = "test") -> Cell:
    """Return the cell of all runs on record that differ from `first` only in their seed."""
    return cell_of(first, reader.runs_on_record(first), quantity)


def cell_of(
    first: Experiment,
    runs: Iterable[Experiment],
    quantity: Quantity = "test",
    *,
    metric: str | None = None,
) -> Cell:
    """Return the cell of `runs`, which differ from `first` only in their seed.

    Test scores are in `metric`, or in the task's own. Only runs that learned have a value.
    """
    metric = metric or first.task.metric
    sign = metric_of(first, quantity, metric).sign
    ended = []
    unlearned = []
    by_seed = {}
    for run in runs:
        result = reader.result(run.folder())
        if result is None:
            continue
        ended.append((run, result))
        if result.status != "done":
            continue
        if not has_learned(first, result.test_score(first.task.metric)):
            unlearned.append(run.seed)
            continue
        value = value_of(run, result, quantity, metric)
        if value is not None:
            by_seed[run.seed] = sign * value
    return Cell(
        metric,
        runs=tuple(run for run, _ in ended),
        results=tuple(result for _, result in ended),
        by_seed=by_seed,
        unlearned=tuple(unlearned),
    )


@cache
def _step(folder: Path) -> float:
    """Return the step of an accuracy in percent: 100 / the number of test examples.

    0 without outputs.
    """
    record = reader.record(folder)
    return 100 / len(record.outputs()) if record.has(OUTPUTS) else 0.0


def last_fall(run: Experiment) -> float | None:
    """Return the share by which validation loss fell over a run's last tenth.

    None below two losses.
    """
    losses = reader.curve(run.folder(), "valid_loss")
    before = losses[-1 - max(1, round(len(losses) / 10))] if len(losses) > 1 else None
    return None if before is None else (before - losses[-1]) / before
