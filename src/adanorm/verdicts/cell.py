"""The runs of one norm on a task over seeds (`Cell`), and of all norms on it (`Evidence`)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from statistics import fmean, median
from typing import Literal, TypeAlias

from adanorm.config.compose import cached_experiment
from adanorm.config.experiment import Experiment
from adanorm.config.paper import departures_from_paper
from adanorm.metrics.table import METRICS, mean_text
from adanorm.records import reader
from adanorm.records.baselines import has_learned
from adanorm.records.integrity import OUTPUTS
from adanorm.records.published import Published, published
from adanorm.records.result import Result, Status
from adanorm.stats.variance import Spread, TaskVariance, prediction
from adanorm.studies.rule import Compares
from adanorm.studies.study import Candidate
from adanorm.verdicts.preregistration import preregistration

Quantity: TypeAlias = Compares | Literal["valid_best", "valid_level"]
Fate: TypeAlias = Status | Literal["did not learn"]
FATES: tuple[Fate, ...] = (
    "diverged",
    "did not learn",
    "failed",
)  # of runs whose scores do not count


@dataclass(frozen=True)
class Cell:
    """The runs of one norm on a task that have ended, and their results in the same order."""

    metric: str
    planned: int = 0  # number of seeds that the study asks for
    runs: tuple[Experiment, ...] = ()
    results: tuple[Result, ...] = ()
    by_seed: Mapping[int, float] = field(
        default_factory=dict
    )  # of runs that learned; larger is better
    unlearned: tuple[int, ...] = ()  # seeds of the runs that are no better than a trivial baseline
    paper: Published | None = None

    @property
    def scores(self) -> list[float]:
        """The test scores of the runs that are done, in the metric's own unit and direction."""
        return [
            result.test_score(self.metric) for result in self.results if result.status == "done"
        ]

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of the runs."""
        return tuple(run.folder() for run in self.runs)

    @property
    def setback(self) -> str:
        """How many runs diverged or, if none did, did not learn, such as 'diverged 1/3'; perhaps ''."""
        counts = ((fate, self.count(fate)) for fate in FATES if fate != "failed")
        return next((f"{fate} {count}/{len(self.results)}" for fate, count in counts if count), "")

    @property
    def recorded(self) -> set[int]:
        """The seeds whose runs have ended without failing."""
        return {result.seed for result in self.results if result.status != "failed"}

    @property
    def seconds(self) -> float | None:
        """The median seconds of the runs that learned; None if no run has its time on record."""
        learned = (r for r in self.results if r.status == "done" and r.seed not in self.unlearned)
        seconds = [result.seconds_alone for result in learned if result.seconds_alone]
        return median(seconds) if seconds else None

    @property
    def example(self) -> float:
        """By how much one test example changes a score in percent; 0 for other scores and without outputs."""
        return (
            _step(self.runs[0].folder()) if self.runs and METRICS[self.metric].unit == "%" else 0.0
        )

    def count(self, fate: Fate) -> int:
        """Return how many runs ended with a status, or did not learn."""
        return (
            len(self.unlearned)
            if fate == "did not learn"
            else sum(r.status == fate for r in self.results)
        )

    @property
    def text(self) -> str:
        """`mean ± standard deviation` (k/n seeds if some are missing), `Diverge (k/n)`, `failed` or `-`."""
        ended = len(self.results)
        if diverged := self.count("diverged"):
            return f"Diverge ({diverged}/{ended})"
        if not self.scores:
            return "failed" if ended else "-"
        mean = mean_text(self.scores, METRICS[self.metric].decimals(fmean(self.scores)))
        seeds = (
            f" ({len(self.scores)}/{self.planned} seeds)" if len(self.scores) < self.planned else ""
        )
        unlearned = f", did not learn ({len(self.unlearned)}/{ended})" if self.unlearned else ""
        return f"{mean}{seeds}{unlearned}"

    def verdict(self, spread: Spread | None) -> str:
        """Return whether the paper's number could be the score of one more run, given the runs' `spread`.

        *consistent*, *inconclusive* or *differs*, with its percentile; no verdict on an unconfirmed number.
        """
        number, ended, diverged = self.paper, len(self.results), self.count("diverged")
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
        mean, count = fmean(self.scores), len(self.scores)
        position = prediction(
            number.value, rounding=number.rounding, mean=mean, count=count, spread=spread
        )
        return f"{position.verdict} ({position.percentile:.0f} %)"


def cell(experiments: Sequence[Experiment], *, metric: str | None = None) -> Cell:
    """Return the cell of runs that differ only in their seed, with all other seeds on record.

    If `metric` is not the task's own, the cell shows it where runs have it, and has no number of
    the paper.
    """
    first, seeds = experiments[0], {experiment.seed for experiment in experiments}
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
    """Return the cell of `runs`, which differ from `first` only in their seed."""
    own = first.task.metric
    metric = metric or own
    ended = [(run, result) for run in runs if (result := reader.result(run.folder())) is not None]
    done = [(run, result) for run, result in ended if result.status == "done"]
    unlearned = [run.seed for run, result in done if not has_learned(run, result.test_score(own))]
    name = metric if quantity in ("test", "top3") else first.task.selection_metric
    sign = METRICS[
        quantity if quantity in METRICS else "loss" if quantity.startswith("last_") else name
    ].sign
    learned = [(run, result) for run, result in done if run.seed not in unlearned]
    values = {run.seed: value_of(run, result, quantity, metric) for run, result in learned}
    return Cell(
        metric,
        runs=tuple(run for run, _ in ended),
        results=tuple(result for _, result in ended),
        by_seed={seed: sign * value for seed, value in values.items() if value is not None},
        unlearned=tuple(unlearned),
    )


def value_of(run: Experiment, result: Result, quantity: Quantity, metric: str = "") -> float | None:
    """Return a completed run's value of a quantity (a test score in `metric`); None if it has none."""
    if quantity == "test" or (quantity == "top3" and result.averaged):
        return (result.test or {}).get(
            metric
        )  # averaged weights are a mean over evaluations already
    if quantity == "valid_best":
        return (result.valid or {}).get(run.task.selection_metric)
    valid = f"valid_{run.task.selection_metric}"
    if quantity == "valid_level":
        return level(reader.curve(run.folder(), valid))
    rows = reader.record(run.folder()).rows()
    if quantity.startswith("last_"):
        return float(rows[-1][quantity.removeprefix("last_")]) if rows else None
    tracked = reader.record(run.folder()).rows("test_metrics.jsonl")
    if (
        quantity != "top3"
    ):  # memorized or recovered: a score of wrong labels, at the last evaluation
        return tracked[-1].get(f"test_{quantity}") if tracked else None
    tests = {row["update"]: row[f"test_{metric}"] for row in tracked}
    sign = METRICS[run.task.selection_metric].sign
    scored = (row for row in rows if valid in row and row["update"] in tests)
    return top3([(sign * row[valid], tests[row["update"]]) for row in scored])


def level(curve: Sequence[float]) -> float | None:
    """Return the mean of the last third of a run's evaluations (at least one); None without evaluations."""
    return fmean(curve[-max(1, len(curve) // 3) :]) if curve else None


def top3(evaluations: Sequence[tuple[float, float]]) -> float | None:
    """Return the mean test score of the three evaluations (validation, test) best by validation, or None."""
    best = sorted(evaluations, key=lambda evaluation: evaluation[0], reverse=True)[:3]
    return fmean(test for _, test in best) if best else None


@dataclass(frozen=True)
class Evidence:
    """The cells of a task at a scale by norm, and the variance of scores of norms whose runs all learned."""

    task: str
    scale: str
    quantity: Quantity
    norms: dict[str, Cell]
    variance: TaskVariance
    plan: str | None = None  # the plan that reads the runs; None: the first
    overrides: Sequence[str] = ()  # settings in which the runs differ from the scale's own

    def of_seeds(self, seeds: Mapping[str, Collection[int]]) -> Evidence:
        """Return the same evidence, with some norms restricted to the given seeds."""
        norms = self.norms | {
            norm: cell_of(runs[0], [run for run in runs if run.seed in chosen], self.quantity)
            for norm, chosen in seeds.items()
            if (runs := self.norms[norm].runs)
        }
        return replace(self, norms=norms, variance=variance_of(norms, self.quantity))


def evidence(
    task: str,
    scale: str,
    quantity: Quantity = "test",
    *,
    runs: str | None = None,
    norms: Sequence[str] = (),
    overrides: Sequence[str] = (),
    plan: str | None = None,
) -> Evidence:
    """Return the evidence on a task at a scale, for the registered norms and `norms`; `runs` is a folder."""
    names = dict.fromkeys([*preregistration().norms, *norms])
    first_seed = [f"seed={preregistration().plans[plan].first}"] if plan else []
    settings = [f"task={task}", f"scale={scale}", *overrides, *first_seed]
    firsts = {norm: cached_experiment([*settings, f"norm={norm}"], runs=runs) for norm in names}
    cells = {norm: cell_on_record(first, quantity) for norm, first in firsts.items()}
    return Evidence(task, scale, quantity, cells, variance_of(cells, quantity), plan, overrides)


def variance_of(norms: Mapping[str, Cell], quantity: Quantity = "test") -> TaskVariance:
    """Return the variance of scores on one task and scale, over the norms whose runs all learned."""
    learned = {norm: cell for norm, cell in norms.items() if cell.by_seed and not cell.setback}
    first = next(iter(learned.values()), None)
    step = first.example if first and quantity == "test" and first.metric == "accuracy" else 0.0
    scores = {norm: cell.by_seed for norm, cell in learned.items()}
    return TaskVariance(scores, preregistration().prior_df_at_most, step)


@cache
def _step(folder: Path) -> float:
    """Return the step of an accuracy in percent: 100 / the number of test examples; 0 without outputs."""
    record = reader.record(folder)
    return 100 / len(record.outputs()) if record.has(OUTPUTS) else 0.0


class Tried:
    """A setting that was tried, judged by validation; `valid` has the best score of each run that is done."""

    def __init__(self, candidate: Candidate) -> None:
        self.candidate, self._metric = candidate, candidate.runs[0].task.selection_metric
        self.results = [reader.result(run.folder()) for run in candidate.runs]
        self.valid = [r.valid_score(self._metric) for r in self.results if r and r.status == "done"]
        self.has_ended = None not in self.results

    @property
    def text(self) -> str:
        """The mean validation score, and which runs diverged, failed or are missing; `-` if none ended."""
        statuses = Counter(result.status for result in self.results if result)
        facts = [METRICS[self._metric].text(fmean(self.valid))] if self.valid else []
        facts += [f"{statuses[s]} {s}" for s in ("diverged", "failed") if s in statuses]
        if facts and not self.has_ended:
            facts.append(f"{statuses.total()}/{len(self.results)} seeds")
        return ", ".join(facts) or "-"

    def rank(self) -> tuple[bool, bool, float]:
        """Return a sort key, largest for the best: all runs ended, all are done, mean signed score."""
        mean = METRICS[self._metric].sign * fmean(self.valid) if self.valid else -math.inf
        return self.has_ended, len(self.valid) == len(self.results), mean


def last_fall(run: Experiment) -> float | None:
    """Return the share by which validation loss fell over a run's last tenth; None below two losses."""
    losses = reader.curve(run.folder(), "valid_loss")
    before = losses[-1 - max(1, round(len(losses) / 10))] if len(losses) > 1 else None
    return None if before is None else (before - losses[-1]) / before
