"""What is compared of a run: its value of each quantity, from its record."""

from collections.abc import Sequence
from operator import itemgetter
from statistics import fmean
from typing import Literal, NamedTuple, TypeAlias

from adanorm.config.experiment import Experiment
from adanorm.config.titles import METRICS, Metric
from adanorm.records import reader
from adanorm.records.result import Result
from adanorm.studies.rule import Compares

Quantity: TypeAlias = Compares | Literal["valid_best", "valid_level", "chrf", "length_ratio"]
Value: TypeAlias = float | None


class Scored(NamedTuple):
    """A test score that a run is judged by, with the update of its evaluation."""

    update: int
    test: float


def value_of(run: Experiment, result: Result, quantity: Quantity, metric: str = "") -> Value:
    """Return a completed run's value of a quantity (a test score in `metric`).

    None if it has none. `top3` is the mean test score of the three evaluations best by validation;
    averaged weights are a mean over evaluations already: theirs is the run's test score.
    """
    selection = run.task.selection_metric
    if quantity == "top3":
        evaluations = scored(
            run,
            result,
            quantity,
            metric,
        )
        return fmean(evaluation.test for evaluation in evaluations) if evaluations else None
    if quantity == "valid_best":
        return (result.valid or {}).get(selection)
    if quantity == "valid_level":
        return tail_mean(reader.curve(run.folder(), f"valid_{selection}"))
    if quantity.startswith("last_"):
        rows = reader.record(run.folder()).rows()
        return float(rows[-1][quantity.removeprefix("last_")]) if rows else None
    if quantity in ("memorized", "recovered"):
        # A score of the training data's wrong labels in percent, at the last evaluation.
        rows = reader.record(run.folder()).rows("test_metrics.jsonl")
        return rows[-1].get(f"test_{quantity}") if rows else None
    return (result.test or {}).get(metric if quantity == "test" else quantity)


def scored(run: Experiment, result: Result, quantity: Quantity, metric: str) -> list[Scored]:
    """Return the test scores whose mean is a completed run's value; [] for no test score."""
    if quantity == "top3" and not result.averaged:
        return three_best(_evaluations(run, metric))
    score = (result.test or {}).get(metric)
    if quantity not in ("test", "top3") or score is None or result.best_step is None:
        return []
    return [Scored(result.best_step, score)]


def metric_of(run: Experiment, quantity: Quantity, metric: str) -> Metric:
    """Return the metric whose direction a quantity has; `metric` is that of test scores."""
    if quantity in ("test", "top3"):
        return METRICS[metric]
    if quantity in METRICS:
        return METRICS[quantity]
    return METRICS["loss" if quantity.startswith("last_") else run.task.selection_metric]


def tail_mean(curve: Sequence[float]) -> Value:
    """Return the mean of the last third of a run's evaluations (at least one).

    None without evaluations.
    """
    return fmean(curve[-max(1, len(curve) // 3) :]) if curve else None


def three_best(evaluations: Sequence[tuple[float, Scored]]) -> list[Scored]:
    """Return the test scores with the three largest validation scores; of ties the first."""
    best_first = sorted(
        evaluations,
        key=itemgetter(0),
        reverse=True,
    )
    return [evaluation for _, evaluation in best_first[:3]]


def _evaluations(run: Experiment, metric: str) -> list[tuple[float, Scored]]:
    record = reader.record(run.folder())
    name = run.task.selection_metric
    tests = {row["update"]: row[f"test_{metric}"] for row in record.rows("test_metrics.jsonl")}
    evaluations = []
    for row in record.rows():
        if f"valid_{name}" in row and row["update"] in tests:
            valid = METRICS[name].sign * row[f"valid_{name}"]
            evaluations.append((valid, Scored(row["update"], tests[row["update"]])))
    return evaluations
