"""What is compared of a run: its value of each quantity, from its record."""

from collections.abc import Callable, Sequence
from functools import partial
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

    None if it has none.
    """
    return _VALUES[quantity](run, result, metric)


def scored(run: Experiment, result: Result, quantity: Quantity, metric: str) -> list[Scored]:
    """Return the test scores whose mean is a completed run's value; [] for no test score."""
    if quantity == "top3" and not result.averaged:
        return three_best(_evaluations(run, metric))
    score = _test(run, result, metric)
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


def _test(_: Experiment, result: Result, metric: str) -> Value:
    return (result.test or {}).get(metric)


def _top3(run: Experiment, result: Result, metric: str) -> Value:
    """Return the mean test score of the three evaluations best by validation, or None.

    Averaged weights are a mean over evaluations already: theirs is the run's test score.
    """
    evaluations = scored(run, result, "top3", metric)
    return fmean(evaluation.test for evaluation in evaluations) if evaluations else None


def three_best(evaluations: Sequence[tuple[float, Scored]]) -> list[Scored]:
    """Return the test scores with the three largest validation scores; of ties the first."""
    best = sorted(
        evaluations,
        key=lambda evaluation: evaluation[0],
        reverse=True,
    )[:3]
    return [evaluation for _, evaluation in best]


def _evaluations(run: Experiment, metric: str) -> list[tuple[float, Scored]]:
    record, name = reader.record(run.folder()), run.task.selection_metric
    tests = {row["update"]: row[f"test_{metric}"] for row in record.rows("test_metrics.jsonl")}
    evaluations = []
    for row in record.rows():
        if f"valid_{name}" in row and row["update"] in tests:
            valid = METRICS[name].sign * row[f"valid_{name}"]
            evaluations.append((valid, Scored(row["update"], tests[row["update"]])))
    return evaluations


def _valid_best(run: Experiment, result: Result, _: str) -> Value:
    return (result.valid or {}).get(run.task.selection_metric)


def _valid_level(run: Experiment, _: Result, __: str) -> Value:
    return tail_mean(reader.curve(run.folder(), f"valid_{run.task.selection_metric}"))


def _last(name: str, run: Experiment, _: Result, __: str) -> Value:
    rows = reader.record(run.folder()).rows()
    return float(rows[-1][name]) if rows else None


def _of_wrong_labels(name: str, run: Experiment, _: Result, __: str) -> Value:
    """Return a score of the training data's wrong labels in percent, at the last evaluation."""
    rows = reader.record(run.folder()).rows("test_metrics.jsonl")
    return rows[-1].get(f"test_{name}") if rows else None


_VALUES: dict[Quantity, Callable[[Experiment, Result, str], Value]] = {
    "test": _test,
    "top3": _top3,
    "chrf": lambda run, result, _: _test(
        run,
        result,
        "chrf",
    ),
    "length_ratio": lambda run, result, _: _test(
        run,
        result,
        "length_ratio",
    ),
    "valid_best": _valid_best,
    "valid_level": _valid_level,
    "last_train_loss": partial(_last, "train_loss"),
    "last_valid_loss": partial(_last, "valid_loss"),
    "memorized": partial(_of_wrong_labels, "memorized"),
    "recovered": partial(_of_wrong_labels, "recovered"),
}
