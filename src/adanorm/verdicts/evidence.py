"""What the records say of a task at a scale: each norm's scores over all seeds on record."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from adanorm.config.compose import cached_experiment
from adanorm.config.experiment import Experiment
from adanorm.config.paths import choices
from adanorm.records import reader
from adanorm.verdicts.cell import Cell, Quantity, cell_on_record
from adanorm.verdicts.preregistration import preregistration
from adanorm.verdicts.variance import TaskVariance


@dataclass(frozen=True)
class Evidence:
    """The runs of a task at a scale by norm, and the variance of scores: of norms whose runs all learned."""

    task: str
    scale: str
    quantity: Quantity
    norms: dict[str, Cell]
    variance: TaskVariance
    plan: str | None = None  # that reads the runs; None: the first

    def of_seeds(self, seeds: Mapping[str, Collection[int]]) -> Evidence:
        """Return the same with the norms that are named held to some of their seeds."""
        norms = {norm: cell.of_seeds(seeds.get(norm, cell.recorded)) for norm, cell in self.norms.items()}
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
    """Return what the records of a folder say of a task at a scale.

    Its settings are as they come but for `overrides`. The variance is that of the registered norms, and of
    others that are named.
    """
    chosen = tuple(dict.fromkeys([*preregistration().norms, *norms]))
    if task not in choices("task"):
        return Evidence(task, scale, quantity, {}, TaskVariance({}, preregistration().prior_df_at_most))
    settings = [
        f"scale={scale}",
        *overrides,
        *([f"seed={preregistration().plans[plan].first}"] if plan else []),
    ]
    cells = {
        norm: cell_on_record(
            cached_experiment([f"task={task}", f"norm={norm}", *settings], runs=runs),
            quantity,
        )
        for norm in chosen
    }
    return Evidence(task, scale, quantity, cells, variance_of(cells, quantity), plan)


def variance_of(norms: Mapping[str, Cell], quantity: Quantity = "test") -> TaskVariance:
    """Return the variance of the scores of norms that share a task and a scale, of which all runs learned."""
    scores = {norm: cell.by_seed for norm, cell in norms.items() if cell.by_seed and cell.all_learned}
    first = next((norms[norm].runs[0] for norm in scores), None)
    step = _resolution(first, quantity) if first is not None else 0.0
    return TaskVariance(scores, preregistration().prior_df_at_most, step)


def _resolution(run: Experiment, quantity: Quantity) -> float:
    """Return the step of a score: of an accuracy in percent, a hundred over the test examples; else 0."""
    if quantity != "test" or run.task.metric != "accuracy":
        return 0.0
    return _accuracy_step(run.task.name, run.scale, str(run.folder()))


@cache
def _accuracy_step(task: str, scale: str, folder: str) -> float:
    path = Path(folder)
    return 100 / len(reader.outputs(path)) if reader.has_outputs(path) else 0.0


def verdict_of(cell: Cell, run: Experiment) -> str:
    """Return the verdict of a cell on the paper's number, by the spread of the task's norms."""
    return cell.verdict(evidence(run.task.name, run.scale, runs=run.runs).variance.within)
