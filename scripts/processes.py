"""Train tasks in two processes, then one, then as many as asked for: losses must stay equal.

`python -m scripts.processes FOLDER cpu 4 images bytes` writes the losses of each case. One run is
resumed by each number of processes in turn (`0.json`, `1.json`, `2.json`); the other is never
interrupted (`whole.json`).
"""

import gc
import json
import os
import socket
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from unittest.mock import patch

import torch
import torch._dynamo  # DistributedDataParallel would import it in every process
from torch.multiprocessing.spawn import start_processes

from adanorm import tasks
from adanorm.config.compose import compose_experiment
from adanorm.config.experiment import Experiment
from adanorm.runs.execute import choose_device, prepare, start_trainer
from adanorm.tasks import TrainingTask
from adanorm.training.distributed import (
    ALONE,
    World,
    all_reduce,
    init_distributed,
)
from adanorm.training.loop import Trainer

TURNS = 3  # of the resumed run: by two processes, by one, by the largest number
UPDATES = 2  # in each turn
DROPOUTS = ("", "attention_", "activation_")
CASES = {
    "images": ("task=mnist", "training.accumulate=3"),
    "a norm over the batch": (
        "task=mnist",
        "norm=batchnorm",
        "norm.params.synchronized=true",
    ),
    "sentences": ("task=rt", "model.dropout=0"),
    "translation": (
        "task=de-en",
        "training.accumulate=3",
        *(f"model.{kind}dropout=0" for kind in DROPOUTS),
    ),
    "bytes": (
        "task=enwik8",
        "training.accumulate=2",
        "model.dropout=0",
    ),
    "parsing": ("task=ptb", "training.accumulate=4", "model.dropout=0"),
    "regression": ("task=gaussian", "training.accumulate=2"),
}
# On a CPU the masks do not depend on the number of processes.
MASKED = {
    "sentences with dropout": (
        "task=rt",
        "model.dropout=0.3",
        "model.attention_dropout=0.2",
        "model.word_dropout=0.1",
    ),
    "translation with dropout": (
        "task=de-en",
        "training.accumulate=2",
        *(f"model.{kind}dropout=0.2" for kind in DROPOUTS),
    ),
    "bytes with dropout": ("task=enwik8", "model.dropout=0.2"),
    "recurrent": (
        "task=enwik8-gru",
        *(f"model.{kind}_dropout=0.2" for kind in ("input", "hidden", "output", "weight")),
    ),
    "parsing with dropout": ("task=ptb", "training.accumulate=2", "model.dropout=0.3"),
}
Loaded = dict[str, TrainingTask]


def losses(trainer: Trainer, updates: int) -> list[float]:
    """Train, and return the mean loss of each update over all processes."""
    trainer.model.train()
    sums = []
    for batches in islice(trainer.batches(), updates):
        loss = trainer.update(batches)
        sums.append(torch.stack([loss.total, torch.full_like(loss.total, loss.units)]))
    total, units = all_reduce(torch.stack(sums), trainer.context.world).unbind(1)
    return (total / units).tolist()


def experiment_of(case: str, device: str) -> Experiment:
    """Return the smoke run of a case."""
    return compose_experiment(
        [
            "scale=smoke",
            "norm=adanorm",
            f"device={device}",
            *{**CASES, **MASKED}[case],
        ]
    )


def train(
    case: str,
    device: str,
    loaded: Loaded,
    world: World,
    checkpoint: Path | None,
) -> list[float]:
    """Return the losses of a whole run, or of one turn, which resumes and replaces a checkpoint."""
    experiment = experiment_of(case, device)
    trainer = start_trainer(experiment, prepare(experiment, loaded[case]), world)
    if checkpoint is None:
        return losses(trainer, UPDATES * TURNS)
    trainer.resume(checkpoint)
    means = losses(trainer, UPDATES)
    trainer.save(checkpoint)
    return means


def work(
    rank: int,
    sizes: Sequence[int],
    ports: Sequence[int],
    loaded: Loaded,
    folder: Path,
    device: str,
) -> None:
    """Train as process `rank` in each turn; process 0 then makes the whole run."""
    for turn, (size, port) in enumerate(zip(sizes, ports, strict=True)):
        if rank < size:
            os.environ["MASTER_ADDR"] = "localhost"
            os.environ["MASTER_PORT"] = str(port)
            os.environ["RANK"] = os.environ["LOCAL_RANK"] = str(rank)
            os.environ["WORLD_SIZE"] = str(size)
            with init_distributed(choose_device(experiment_of("images", device))) as world:
                by_case = {
                    case: train(
                        case,
                        device,
                        loaded,
                        world,
                        folder / f"{case}.pt",
                    )
                    for case in loaded
                }
            if rank == 0:
                (folder / f"{turn}.json").write_text(json.dumps(by_case))
    if rank == 0:
        by_case = {case: train(case, device, loaded, ALONE, None) for case in loaded}
        (folder / "whole.json").write_text(json.dumps(by_case))


def differences(folder: Path) -> dict[str, float]:
    """Return, by case, the largest relative difference of a loss from that of the whole run."""
    turns = [json.loads((folder / f"{turn}.json").read_text()) for turn in range(TURNS)]
    whole = json.loads((folder / "whole.json").read_text())
    largest = {}
    for case, expected in whole.items():
        resumed = [loss for turn in turns for loss in turn[case]]
        largest[case] = largest_difference(resumed, expected)
    return largest


def largest_difference(losses: Sequence[float], expected: Sequence[float]) -> float:
    """Return the largest relative difference of a loss from the expected one."""
    pairs = zip(losses, expected, strict=True)
    return max(abs(loss - target) / abs(target) for loss, target in pairs)


def free_port() -> int:
    """Return a port on which nothing listens now."""
    with socket.create_server(("localhost", 0)) as server:
        return server.getsockname()[1]


def main(folder: Path, device: str, largest: int, cases: Sequence[str]) -> None:
    """Train in 2, 1 and `largest` processes in turn.

    Raises torch's ProcessException if one of them fails.
    """
    sizes, ports = (2, 1, largest), [free_port() for _ in range(TURNS)]
    # Loaded once, for all processes, with no GPU visible: a used GPU cannot be shared with a forked
    # process, and even counting GPUs, as fairseq does at import, may use them.
    with patch.dict(os.environ, CUDA_VISIBLE_DEVICES=""):
        loaded = {case: tasks.build(experiment_of(case, "cpu")) for case in cases}
    gc.freeze()  # a collection in a process would copy what is imported, to look at it
    arguments = (sizes, ports, loaded, folder, device)
    start_processes(work, arguments, max(sizes), start_method="fork")  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    _, folder, device, largest, *cases = sys.argv
    main(Path(folder), device, int(largest), cases)
