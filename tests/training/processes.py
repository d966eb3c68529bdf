"""Trains every kind of task in two processes, alone, and in four.

`python -m tests.training.processes FOLDER` writes, of each case, the losses of a run that each number of
processes takes up from the one before (`2.json`, `1.json`, `4.json`), and of a whole run (`whole.json`).
"""

from __future__ import annotations

import json
import os
import socket
import sys
from itertools import islice
from pathlib import Path

import torch
import torch._dynamo  # which DistributedDataParallel would import in every process

from adanorm.config.compose import compose_experiment
from adanorm.runs.setup import Prepared, prepare, start_trainer
from adanorm.training.distributed import ALONE, World, all_reduce, init_distributed
from adanorm.training.loop import Trainer

SIZES = (2, 1, 4)
UPDATES = 2  # by each number of processes, of the run that is taken up
CASES = {
    "images": ("task=mnist", "training.accumulate=3"),
    "a norm over the batch": ("task=mnist", "norm=batchnorm", "norm.params.synchronized=true"),
    "sentences": ("task=rt", "model.dropout=0"),
    "translation": (
        "task=de-en", "training.accumulate=3", "model.dropout=0", "model.attention_dropout=0",
        "model.activation_dropout=0",
    ),
    "bytes": ("task=enwik8", "training.accumulate=2", "model.dropout=0"),
    "parsing": ("task=ptb", "training.accumulate=4", "model.dropout=0"),
    "regression": ("task=gaussian", "training.accumulate=2"),
}  # fmt: skip
Loaded = dict[str, Prepared]


def losses(trainer: Trainer, updates: int) -> list[float]:
    """Train; return the mean loss of each update over all processes."""
    trainer.model.train()
    found = [trainer.update(batches) for batches in islice(trainer.batches(), updates)]
    sums = torch.tensor([[loss.total.item(), loss.units] for loss in found], dtype=torch.float64)
    total, units = all_reduce(sums, trainer.context.world).unbind(1)
    means: list[float] = (total / units).tolist()
    return means


def train(case: str, loaded: Loaded, world: World, checkpoint: Path | None) -> list[float]:
    """Return the losses of a whole run, or of what is trained from a checkpoint on to the next."""
    experiment = compose_experiment(["scale=smoke", "norm=adanorm", *CASES[case]])
    trainer = start_trainer(experiment, prepare(experiment, loaded[case].task), world)
    if checkpoint is None:
        return losses(trainer, UPDATES * len(SIZES))
    trainer.resume(checkpoint)
    found = losses(trainer, UPDATES)
    trainer.save(checkpoint)
    return found


def work(rank: int, ports: dict[int, int], loaded: Loaded, folder: Path) -> None:
    for size in SIZES:
        if rank < size:
            places = {"MASTER_PORT": ports[size], "RANK": rank, "WORLD_SIZE": size}
            os.environ.update(
                {"MASTER_ADDR": "localhost"} | {key: str(value) for key, value in places.items()}
            )
            with init_distributed(torch.device("cpu")) as world:
                found = {case: train(case, loaded, world, folder / f"{case}.pt") for case in loaded}
            if rank == 0:
                (folder / f"{size}.json").write_text(json.dumps(found))
    if rank == 0:
        found = {case: train(case, loaded, ALONE, None) for case in loaded}
        (folder / "whole.json").write_text(json.dumps(found))


def free_port() -> int:
    with socket.create_server(("localhost", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def main(folder: Path, cases: list[str]) -> int:
    """Load the data once, and work in as many processes as the largest number asks for."""
    loaded = {case: prepare(compose_experiment(["scale=smoke", *CASES[case]])) for case in cases or CASES}
    ports = {size: free_port() for size in SIZES}
    children = []
    for rank in range(max(SIZES)):
        if not (child := os.fork()):
            work(rank, ports, loaded, folder)
            os._exit(0)
        children.append(child)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
