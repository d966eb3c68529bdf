"""Batches that a thread collates ahead."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import torch

from adanorm.config.experiment import Experiment
from adanorm.runs.setup import prepare, start_trainer
from adanorm.training.loop import Trainer, ahead
from adanorm.training.progress import Progress
from adanorm.training.state import Row

Smoke = Callable[..., Experiment]


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("batches-ahead")]


@pytest.mark.parametrize("count", [1, 3, 100])
def test_items_come_prepared_and_in_their_order_and_an_error_after_them(count: int) -> None:
    def breaks() -> Iterator[int]:
        yield from range(20)
        raise OSError("the disk is gone")

    found: list[int] = []
    with pytest.raises(OSError, match="the disk is gone"):
        found.extend(ahead(breaks(), lambda number: 2 * number, count=count))
    assert found == list(range(0, 40, 2))
    assert list(ahead(iter(range(20)), abs, count=count)) == list(range(20))
    assert threads() == []


def test_no_more_than_so_many_are_ready_ahead() -> None:
    started: list[int] = []

    def counted(number: int) -> int:
        started.append(number)
        return number

    items = ahead(iter(range(1000)), counted, count=3)
    assert next(items) == 0
    time.sleep(0.2)
    assert len(started) <= 1 + 3 + 1  # given out, ready, and one that waits for its place
    items.close()  # type: ignore[attr-defined]
    assert threads() == []


def test_no_thread_is_left_where_training_is_interrupted(smoke: Smoke, tmp_path: Path) -> None:
    def interrupted(row: Row) -> None:
        raise KeyboardInterrupt

    trainer = started(smoke("task=mnist"), batches_ahead=2)
    with pytest.raises(KeyboardInterrupt), Progress(trainer.settings, 6, "accuracy", shown=False) as progress:
        trainer.train(tmp_path / "c.pt", interrupted, progress)
    assert threads() == []


def started(experiment: Experiment, *, batches_ahead: int) -> Trainer:
    trainer = start_trainer(experiment, prepare(experiment))
    trainer.context = trainer.context._replace(batches_ahead=batches_ahead)
    return trainer


@pytest.mark.parametrize("count", [0, 2])
def test_there_is_a_thread_where_batches_are_asked_for_ahead_and_else_none(smoke: Smoke, count: int) -> None:
    with closing(started(smoke(), batches_ahead=count).batches()) as batches:
        next(batches)
        assert len(threads()) == (1 if count else 0)
    assert threads() == []


@pytest.mark.parametrize("task", ["rt", "mnist", "de-en", "enwik8", "ptb"])
def test_a_run_with_batches_ahead_is_the_same_run(smoke: Smoke, tmp_path: Path, task: str) -> None:
    experiment = smoke(f"task={task}", "training.accumulate=2")
    found = []
    for count in (0, 3):
        trainer = started(experiment, batches_ahead=count)
        rows: list[Row] = []
        with Progress(trainer.settings, 6, "accuracy", shown=False) as progress:
            outcome = trainer.train(tmp_path / f"{count}.pt", rows.append, progress)
        found.append((outcome, [{**row, "seconds": 0} for row in rows]))
    (one, rows_of_one), (other, rows_of_other) = found
    assert rows_of_one == rows_of_other
    assert one.test == other.test
    assert all(torch.equal(weight, other.weights[name]) for name, weight in one.weights.items())
