"""Evidence: a record that is whole, and that training could have written as it stands."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel

from adanorm.config.sections import AverageConfig, Positive
from adanorm.config.titles import METRICS
from adanorm.files import Fields, Values
from adanorm.records import integrity
from adanorm.records.environment import check_environment
from adanorm.records.integrity import COUNTS, OUTPUTS, ROWS, TEST_ROWS
from adanorm.records.reader import Record
from adanorm.records.result import Ended, Result, validated

# The columns of every row, and how others begin, by file.
COMMON = ("update", "epoch", "lr", "seconds")
PREFIXES = {ROWS[Result]: ("train_", "valid_"), TEST_ROWS: ("test_",)}


class _Training(BaseModel):
    """The settings of training that decide when it evaluates, ends and averages."""

    max_updates: Positive | None = None
    evaluate_every: Positive | None = None
    average: AverageConfig | None = None


class _Evaluation(NamedTuple):
    score: float  # of validation, by which the weights are selected; larger is better
    update: int


def evidence_of(record: Record) -> Ended:
    """Return a record's result.

    Raises ValueError if it is not whole, failed, a dry run or of scale smoke, if it has control
    characters, which could change what a terminal shows, or if training writes no such record.
    """
    result = record.checked()
    if record.is_kept:  # then `checked` trusts its files
        integrity.check_record(record.folder, record.content, result)
    integrity.check_printable(
        settings=record.identity, environment=record.environment, result=record.values
    )
    if not result.is_complete:
        raise ValueError(f"it {result.status}, and is tried again at the next start")
    if getattr(result, "scale", None) == "smoke":
        raise ValueError("it is of scale smoke, which is no evidence")
    if getattr(result, "dry_run", None) is not None:
        raise ValueError("it is a dry run")
    _check_keys(record)
    if isinstance(result, Result):
        _check_facts(record, result)
        _check_course(record, result)
    return result


def _check_keys(record: Record) -> None:
    """Raise ValueError if an object of JSON in a file of the record has a key twice."""
    for name in ("environment.json", "result.json", COUNTS, TEST_ROWS, *ROWS.values()):
        content = record.content(name)
        if content is None:
            continue
        objects = content.splitlines() if name.endswith(".jsonl") else [content]
        for text in objects:
            try:
                json.loads(text, object_pairs_hook=_unique)
            except ValueError:
                raise ValueError(f"{name}: not JSON, or a key is given twice") from None


def _unique(pairs: Sequence[tuple[str, Any]]) -> Values:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a key is given twice")
    return values


def _check_facts(record: Record, result: Result) -> None:
    """Raise ValueError if facts of a run that do not depend on its rows contradict each other."""
    if result.norm_parameters > result.parameters:
        raise ValueError("norm_parameters is more than all parameters")
    computed = record.environment.get("precision")
    chosen = record.identity.get("precision")
    if None not in (computed, chosen) and computed != chosen:
        raise ValueError("environment.json: precision is not that of config.yaml")
    _check_starts(result.computed_by, record.environment)
    has_reason = result.diverged is not None
    if has_reason != (result.status == "diverged") or result.error is not None:
        raise ValueError(f"it is {result.status}, which its reason contradicts")
    if result.status == "diverged" and (record.has(COUNTS) or record.has(OUTPUTS)):
        raise ValueError("it diverged, and has outputs of a test")


def _check_starts(starts: Sequence[Values] | None, environment: Fields) -> None:
    """Raise ValueError if the starts of a run are none, or the last is not of its environment."""
    if starts is None:
        return
    for start in starts:
        check_environment(start, "computed_by: ")
    last = starts[-1]
    if not last or any(environment.get(key) != value for key, value in last.items()):
        raise ValueError("computed_by: the last start is not that of environment.json")


def _check_course(record: Record, result: Result) -> None:
    """Raise ValueError unless the rows of a run lead to its best step, its average and its end."""
    training = validated(_Training, record.identity.get("training") or {}, "training.")
    _, metric = integrity.metrics_of(record.identity)
    for name in PREFIXES:
        _check_columns(name, record.rows(name))
    evaluations = _evaluations(record.rows(), metric)
    # Of equal scores the first one: training keeps new weights only if they are better.
    best = max(evaluations, key=lambda entry: entry.score, default=_Evaluation(0.0, 0))
    if result.best_step != best.update:
        raise ValueError(
            f"best_step is {result.best_step}, valid_{metric} is best at {best.update}"
        )
    averaged = _averaged(evaluations, training.average, METRICS[metric].sign)
    if result.averaged != averaged:
        raise ValueError("averaged is not what its settings and rows say")
    updates = {entry.update for entry in evaluations}
    for row in record.rows(TEST_ROWS):
        if row["update"] not in updates:
            raise ValueError(f"{TEST_ROWS}: at update {row['update']} is no evaluation")
    _check_end(result, training, max(updates, default=0))


def _check_columns(name: str, rows: Sequence[Values]) -> None:
    """Raise ValueError if a row of a file has a column that training does not write."""
    for number, row in enumerate(rows, 1):
        for column in row:
            if column not in COMMON and not column.startswith(PREFIXES[name]):
                raise ValueError(f"{name}, line {number}: {column!a:.40} is no column")


def _evaluations(rows: Sequence[Values], metric: str) -> list[_Evaluation]:
    column = f"valid_{metric}"
    sign = METRICS[metric].sign
    evaluations = []
    for number, row in enumerate(rows, 1):
        if column not in row:
            raise ValueError(f"{ROWS[Result]}, line {number}: has no {column}")
        evaluations.append(_Evaluation(sign * row[column], row["update"]))
    return evaluations


def _averaged(
    evaluations: Sequence[_Evaluation], average: AverageConfig | None, sign: int
) -> list[int] | None:
    """Return the updates whose weights training averages; None if it averages none.

    `sign` says as in training which of two equally good evaluations is left out first.
    """
    if average is None or not evaluations:
        return None
    if average.of == "best":
        evaluations = sorted(evaluations, key=lambda entry: (entry.score, sign * entry.update))
    return sorted(entry.update for entry in evaluations[-average.count :])


def _check_end(result: Result, training: _Training, last_update: int) -> None:
    """Raise ValueError if a run cannot have ended at its step, its last row at `last_update`."""
    steps = result.steps or 0
    reason = result.diverged
    if training.max_updates is not None and steps > training.max_updates:
        raise ValueError(f"steps is {steps}, training ends at {training.max_updates}")
    if reason is None:
        return  # the last row of a run that is done is its last step's (`check_record`)
    # The next evaluation would have ended it.
    latest = last_update + training.evaluate_every if training.evaluate_every else steps
    if not last_update <= steps <= latest or not reason.endswith(f"at update {steps}"):
        raise ValueError(f"it did not diverge at update {steps} by its reason and its rows")
