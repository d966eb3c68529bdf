"""What the records say of a task at a scale: each norm's scores over all seeds on record."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import fmean, median
from typing import Literal, TypeAlias

from adanorm.config.compose import cached_experiment
from adanorm.config.experiment import Experiment
from adanorm.config.paths import choices
from adanorm.metrics.table import METRICS
from adanorm.records import reader
from adanorm.records.baselines import has_learned
from adanorm.records.result import Result
from adanorm.verdicts.cell import Cell
from adanorm.verdicts.preregistration import preregistration
from adanorm.verdicts.selection import level
from adanorm.verdicts.variance import TaskVariance

Quantity: TypeAlias = Literal[
    "test", "top3", "last_train_loss", "last_valid_loss", "valid_best", "valid_level"
]


@dataclass(frozen=True)
class NormRuns:
    """The runs of a norm that have ended: its scores by seed, larger is better, and the seeds without one.

    Scores are of runs that learned something; `unlearned` are those no better than a trivial baseline.
    """

    scores: dict[int, float]
    diverged: tuple[int, ...]
    failed: tuple[int, ...]
    unlearned: tuple[int, ...]
    durations: dict[int, float]  # seconds by seed, of the runs that learned
    runs: tuple[Experiment, ...]

    @property
    def seconds(self) -> float | None:
        """The median of a run's seconds; None where no run says its own."""
        return median(self.durations.values()) if self.durations else None

    def of_seeds(self, seeds: Collection[int]) -> NormRuns:
        """Return the runs of some seeds alone."""
        return NormRuns(
            scores={seed: x for seed, x in self.scores.items() if seed in seeds},
            diverged=tuple(seed for seed in self.diverged if seed in seeds),
            failed=tuple(seed for seed in self.failed if seed in seeds),
            unlearned=tuple(seed for seed in self.unlearned if seed in seeds),
            durations={seed: x for seed, x in self.durations.items() if seed in seeds},
            runs=tuple(run for run in self.runs if run.seed in seeds),
        )

    @property
    def all_learned(self) -> bool:
        """Whether no run diverged or failed to learn: scores that are left of others are the better ones."""
        return not self.diverged and not self.unlearned

    @property
    def recorded(self) -> set[int]:
        """The seeds whose runs have ended, failed ones left out."""
        return {run.seed for run in self.runs} - {*self.failed}

    @property
    def ended(self) -> int:
        """How many runs have ended, failed ones left out."""
        return len(self.scores) + len(self.diverged) + len(self.unlearned)


@dataclass(frozen=True)
class Evidence:
    """The runs of a task at a scale by norm, and the variance of scores: of norms whose runs all learned."""

    task: str
    scale: str
    quantity: Quantity
    norms: dict[str, NormRuns]
    variance: TaskVariance

    def of_seeds(self, seeds: Mapping[str, Collection[int]]) -> Evidence:
        """Return the same with the norms that are named held to some of their seeds."""
        norms = {norm: side.of_seeds(seeds.get(norm, side.recorded)) for norm, side in self.norms.items()}
        return replace(self, norms=norms, variance=variance_of(norms, self.quantity))


def lower_is_better(run: Experiment, quantity: Quantity) -> bool:
    """Return whether less of a quantity is better."""
    if quantity in ("last_train_loss", "last_valid_loss"):
        return True
    metric = run.task.metric if quantity in ("test", "top3") else run.task.selection_metric
    return not METRICS[metric].higher_is_better


def evidence(
    task: str,
    scale: str,
    quantity: Quantity = "test",
    *,
    runs: str | None = None,
    norms: Sequence[str] = (),
    overrides: Sequence[str] = (),
) -> Evidence:
    """Return what the records of a folder say of a task at a scale.

    Its settings are as they come but for `overrides`. The variance is that of the registered norms, and of
    others that are named.
    """
    chosen = tuple(dict.fromkeys([*preregistration().norms, *norms]))
    if task not in choices("task"):
        return Evidence(task, scale, quantity, {}, TaskVariance({}, preregistration().prior_df_at_most))
    found = {
        norm: norm_runs(
            cached_experiment([f"task={task}", f"norm={norm}", f"scale={scale}", *overrides], runs=runs),
            quantity,
        )
        for norm in chosen
    }
    return Evidence(task, scale, quantity, found, variance_of(found, quantity))


def variance_of(norms: dict[str, NormRuns], quantity: Quantity = "test") -> TaskVariance:
    """Return the variance of the scores of norms that share a task and a scale, of which all runs learned."""
    scores = {norm: side.scores for norm, side in norms.items() if side.scores and side.all_learned}
    first = next((norms[norm].runs[0] for norm in scores), None)
    step = resolution(first, quantity) if first is not None else 0.0
    return TaskVariance(scores, preregistration().prior_df_at_most, step)


def norm_runs(first: Experiment, quantity: Quantity = "test") -> NormRuns:
    """Return the runs on record that differ from a run in nothing but their seed."""
    read = ((run, reader.result(run.folder())) for run in reader.runs_on_record(first))
    return grouped(((run, result) for run, result in read if result is not None), quantity)


def grouped(results: Iterable[tuple[Experiment, Result]], quantity: Quantity = "test") -> NormRuns:
    """Return a norm's runs by how they ended, from runs that differ in their seed alone and their results."""
    scores: dict[int, float] = {}
    ended: dict[str, list[int]] = {"diverged": [], "failed": [], "unlearned": []}
    durations, made = {}, []
    for run, result in results:
        made.append(run)
        if result.status != "done":
            ended[result.status].append(run.seed)
            continue
        if not has_learned(run, result.test_score(run.task.metric)):
            ended["unlearned"].append(run.seed)
            continue
        if result.seconds is not None:
            durations[run.seed] = result.seconds
        value = _value(run, result, quantity)
        if value is not None:
            scores[run.seed] = -value if lower_is_better(run, quantity) else value
    return NormRuns(
        scores=scores,
        diverged=tuple(ended["diverged"]),
        failed=tuple(ended["failed"]),
        unlearned=tuple(ended["unlearned"]),
        durations=durations,
        runs=tuple(made),
    )


def _value(run: Experiment, result: Result, quantity: Quantity) -> float | None:
    """Return a quantity of a run that is done; None where its curve has none."""
    if quantity == "test":
        return result.test_score(run.task.metric)
    if quantity == "valid_best":
        return (result.valid or {}).get(run.task.selection_metric)
    rows = reader.metrics(run.folder())
    if quantity == "top3":
        return _mean_of_the_best(run, rows, reader.test_metrics(run.folder()))
    if quantity == "valid_level":
        name = f"valid_{run.task.selection_metric}"
        return level([row[name] for row in rows if name in row])
    return float(rows[-1][quantity.removeprefix("last_")]) if rows else None


def _mean_of_the_best(
    run: Experiment, rows: Sequence[Mapping[str, float]], test_rows: Sequence[Mapping[str, float]]
) -> float | None:
    """Return the mean test score of the three evaluations best by the selection metric, of ties the first.

    None where test scores of evaluations are not on record.
    """
    if len(test_rows) != len(rows):
        return None
    name = f"valid_{run.task.selection_metric}"
    sign = -1 if METRICS[run.task.selection_metric].higher_is_better else 1
    best = sorted(range(len(rows)), key=lambda index: sign * rows[index][name])[:3]  # a stable order
    return fmean(test_rows[index][f"test_{run.task.metric}"] for index in best)


def resolution(run: Experiment, quantity: Quantity) -> float:
    """Return the step of a score: of an accuracy in percent, a hundred over the test examples; else 0."""
    if quantity != "test" or run.task.metric != "accuracy":
        return 0.0
    return _accuracy_step(run.task.name, run.scale, str(run.folder()))


@cache
def _accuracy_step(task: str, scale: str, folder: str) -> float:
    path = Path(folder)
    return 100 / len(reader.outputs(path)) if (path / "predictions.txt.gz").exists() else 0.0


def verdict_of(found: Cell, run: Experiment) -> str:
    """Return the verdict of a cell on the paper's number, by the spread of the task's norms."""
    return found.verdict(evidence(run.task.name, run.scale, runs=run.runs).variance.within)
