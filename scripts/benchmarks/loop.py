"""Our training loop against a plain PyTorch loop: `python -m scripts.benchmarks.loop`.

The same model, batches, optimizer and updates at the paper's settings, the two taking turns in one process.
The ratio is of speeds, ours : plain.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from adanorm.config.compose import compose_experiment
from adanorm.config.experiment import Experiment
from adanorm.data.examples import Batch
from adanorm.runs.setup import prepare, start_trainer
from adanorm.tasks.base import Evaluation
from adanorm.tasks.classification import Classification
from adanorm.training.progress import Progress
from scripts.benchmarks.harness import Options, Row, run_benchmark, take_turns

UPDATES = {"mnist": 300, "rt": 12}


class OnlyTrains(Classification):
    """The task without its evaluation, which the plain loop does not have either."""

    def evaluate(self, model: nn.Module, split: str) -> Evaluation:
        """Return a constant."""
        return Evaluation({"accuracy": 0.0}, [])


def measure(options: Options) -> Iterator[Row]:
    """Yield a row for each task."""
    for task, updates in UPDATES.items():
        yield _compared(task, updates, options.rounds)


def _compared(task_name: str, updates: int, rounds: int) -> Row:
    experiment = compose_experiment(
        [f"task={task_name}", "norm=adanorm", f"training.max_updates={updates}", "checkpoint_minutes=1e9"]
    )
    task = OnlyTrains(experiment)
    found = take_turns(
        {"plain": lambda: _plain(experiment, task), "ours": lambda: _ours(experiment, task)}, rounds
    )
    units = sum(_units(batch) for batch in islice(iter(task.train_batches(0)), updates))
    return {
        "task": task_name,
        "unit": "images/s" if task_name == "mnist" else "tokens/s",
        "ours": round(units / found.median("ours")),
        "plain": round(units / found.median("plain")),
        "ratio": found.ratio("plain", "ours"),
    }


def _units(batch: Batch) -> int:
    return len(batch.targets) if batch.inputs.ndim == 4 else int((batch.inputs != 0).sum())


def _plain(experiment: Experiment, task: Classification) -> float:
    """Return the seconds of the updates in a plain loop."""
    model, settings = prepare(experiment, task).model, experiment.training
    assert settings.max_updates is not None
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.lr, betas=settings.betas, weight_decay=0.0)
    started = time.perf_counter()
    for inputs, targets in islice(_plain_batches(task), settings.max_updates):
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), targets).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return time.perf_counter() - started


def _plain_batches(task: Classification) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    batches = task.train_batches(0)
    for indices in batches.order:
        batch = batches.examples.batch(indices)
        yield batch.inputs, batch.targets


def _ours(experiment: Experiment, task: Classification) -> float:
    """Return the seconds of the updates in our loop."""
    trainer = start_trainer(experiment, prepare(experiment, task))
    with (
        tempfile.TemporaryDirectory() as folder,
        Progress(experiment.training, len(task.train_batches(0)), "accuracy", shown=True) as progress,
    ):
        started = time.perf_counter()
        trainer.train(Path(folder) / "checkpoint.pt", lambda row: None, progress)
        return time.perf_counter() - started


if __name__ == "__main__":
    run_benchmark(measure, rounds=7)
