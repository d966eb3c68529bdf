"""Our training loop against a plain PyTorch loop: `python -m scripts.benchmarks.loop`.

The same model, batches, optimizer and updates, the two taking turns in one process.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from statistics import median

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
from scripts.benchmarks import results

ROUNDS = 7
UPDATES = {"mnist": 300, "rt": 12}


class OnlyTrains(Classification):
    """The task without its evaluation, which the plain loop does not have either."""

    def evaluate(self, model: nn.Module, split: str) -> Evaluation:
        """Return a constant."""
        return Evaluation({"accuracy": 0.0}, [])


def main() -> None:
    """Time both loops at the paper's settings, print the ratios and write results/bench/loop.csv."""
    torch.set_num_threads(1)
    rows = [_measure(task) for task in UPDATES]
    results.write("loop", rows)


def _measure(task_name: str) -> dict[str, str | float | None]:
    updates = UPDATES[task_name]
    experiment = compose_experiment(
        [f"task={task_name}", "norm=adanorm", f"training.max_updates={updates}", "checkpoint_minutes=1e9"]
    )
    task = OnlyTrains(experiment)
    seconds: dict[str, list[float]] = {"plain": [], "ours": []}
    for _ in range(ROUNDS):
        seconds["plain"].append(_plain(experiment, task))
        seconds["ours"].append(_ours(experiment, task))
    units = sum(_units(batch) for batch in islice(iter(task.train_batches(0)), updates))
    ratios = [plain / ours for plain, ours in zip(seconds["plain"], seconds["ours"], strict=True)]
    unit = "images" if task_name == "mnist" else "tokens"
    ours, plain = (units / median(seconds[name]) for name in ("ours", "plain"))
    print(
        f"{task_name}: ours {ours:,.0f} {unit}/s, plain {plain:,.0f} {unit}/s, ratio {median(ratios):.3f}"
        f" (median of {ROUNDS}, {min(ratios):.3f} to {max(ratios):.3f})",
        flush=True,
    )
    return {
        "task": task_name,
        "unit": f"{unit}/s",
        "ours": round(ours),
        "plain": round(plain),
        "ratio": round(median(ratios), 3),
        "rounds": ROUNDS,
    }


def _units(batch: Batch) -> int:
    return len(batch.targets) if batch.inputs.ndim == 4 else int((batch.inputs != 0).sum())


def _plain(experiment: Experiment, task: Classification) -> float:
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
    trainer = start_trainer(experiment, prepare(experiment, task))
    with (
        tempfile.TemporaryDirectory() as folder,
        Progress(experiment.training, len(task.train_batches(0)), "accuracy", shown=True) as progress,
    ):
        started = time.perf_counter()
        trainer.train(Path(folder) / "checkpoint.pt", lambda row: None, progress)
        return time.perf_counter() - started


if __name__ == "__main__":
    main()
