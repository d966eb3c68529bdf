"""Trains tasks in two processes, then alone, then in as many as asked for: the losses must be those of one.

`python -m scripts.processes FOLDER cpu 4 images bytes` writes, of each case, the losses of a run that each
number of processes takes up from the one before (`0.json`, `1.json`, `2.json`), and of a whole run
(`whole.json`).
"""

import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from unittest.mock import patch

import torch
import torch._dynamo  # which DistributedDataParallel would import in every process

from adanorm import tasks
from adanorm.config.compose import compose_experiment
from adanorm.config.experiment import Experiment
from adanorm.runs.setup import choose_device, prepare, start_trainer
from adanorm.tasks.base import TrainingTask
from adanorm.training.distributed import ALONE, World, all_reduce, init_distributed
from adanorm.training.loop import Trainer

TURNS = 3  # of the run that is taken up: by two processes, by one, by the largest number
UPDATES = 2  # in each turn
DROPOUTS = ("", "attention_", "activation_")
CASES = {
    "images": ("task=mnist", "training.accumulate=3"),
    "a norm over the batch": ("task=mnist", "norm=batchnorm", "norm.params.synchronized=true"),
    "sentences": ("task=rt", "model.dropout=0"),
    "translation": ("task=de-en", "training.accumulate=3", *(f"model.{kind}dropout=0" for kind in DROPOUTS)),
    "bytes": ("task=enwik8", "training.accumulate=2", "model.dropout=0"),
    "parsing": ("task=ptb", "training.accumulate=4", "model.dropout=0"),
    "regression": ("task=gaussian", "training.accumulate=2"),
}
Loaded = dict[str, TrainingTask]


def losses(trainer: Trainer, updates: int) -> list[float]:
    """Train; return the mean loss of each update over all processes."""
    trainer.model.train()
    found = [trainer.update(batches) for batches in islice(trainer.batches(), updates)]
    sums = torch.stack([torch.stack([loss.total, torch.full_like(loss.total, loss.units)]) for loss in found])
    total, units = all_reduce(sums, trainer.context.world).unbind(1)
    means: list[float] = (total / units).tolist()
    return means


def experiment_of(case: str, device: str) -> Experiment:
    """Return the smoke run of a case."""
    return compose_experiment(["scale=smoke", "norm=adanorm", f"device={device}", *CASES[case]])


def train(case: str, device: str, loaded: Loaded, world: World, checkpoint: Path | None) -> list[float]:
    """Return the losses of a whole run, or of what is trained from a checkpoint on to the next."""
    experiment = experiment_of(case, device)
    trainer = start_trainer(experiment, prepare(experiment, loaded[case]), world)
    if checkpoint is None:
        return losses(trainer, UPDATES * TURNS)
    trainer.resume(checkpoint)
    found = losses(trainer, UPDATES)
    trainer.save(checkpoint)
    return found


def work(
    rank: int, sizes: Sequence[int], ports: Sequence[int], loaded: Loaded, folder: Path, device: str
) -> None:
    """Do one process's part of each number of processes, and what is compared with them."""
    for turn, (size, port) in enumerate(zip(sizes, ports, strict=True)):
        if rank < size:
            numbers = {"MASTER_PORT": port, "RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size}
            os.environ.update(MASTER_ADDR="localhost", **{key: str(value) for key, value in numbers.items()})
            with init_distributed(choose_device(experiment_of("images", device))) as world:
                found = {case: train(case, device, loaded, world, folder / f"{case}.pt") for case in loaded}
            if rank == 0:
                (folder / f"{turn}.json").write_text(json.dumps(found))
    if rank == 0:
        found = {case: train(case, device, loaded, ALONE, None) for case in loaded}
        (folder / "whole.json").write_text(json.dumps(found))


def differences(folder: Path) -> dict[str, float]:
    """Return, by case, the largest relative difference of a loss from that of the whole run."""
    *parts, whole = (json.loads((folder / f"{name}.json").read_text()) for name in (*range(TURNS), "whole"))
    taken_up = {case: [loss for part in parts for loss in part[case]] for case in whole}
    return {case: largest_difference(taken_up[case], whole[case]) for case in whole}


def largest_difference(losses: Sequence[float], expected: Sequence[float]) -> float:
    """Return the largest relative difference of a loss."""
    return max(abs(one - other) / abs(other) for one, other in zip(losses, expected, strict=True))


def free_port() -> int:
    """Return a port that nobody listens at now."""
    with socket.create_server(("localhost", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def main(folder: Path, device: str, largest: int, cases: Sequence[str]) -> int:
    """Work in as many processes as the largest number asks for; the code is 0 if all ended well."""
    sizes, ports = (2, 1, largest), [free_port() for _ in range(TURNS)]
    # Loaded once for all: on the CPU, for a GPU that was used cannot be shared with a forked process. Even to
    # count GPUs, as fairseq does when it is imported, may use them.
    with patch.dict(os.environ, CUDA_VISIBLE_DEVICES=""):
        loaded = {case: tasks.build(experiment_of(case, "cpu")) for case in cases}
    children = {fork(partial(work, rank, sizes, ports, loaded, folder, device)) for rank in range(max(sizes))}
    while children:
        child, status = os.wait()
        children.remove(child)
        if code := os.waitstatus_to_exitcode(status):  # the others would wait for it
            for other in children:
                os.kill(other, signal.SIGKILL)
            return abs(code)
    return 0


def fork(job: Callable[[], None]) -> int:
    """Return the number of a new process that does a job and ends there, whatever comes of it."""
    if child := os.fork():
        return child
    code = 1
    try:
        job()
        code = 0
    except BaseException:
        traceback.print_exc()
    os._exit(code)


if __name__ == "__main__":
    _, folder, device, largest, *cases = sys.argv
    sys.exit(main(Path(folder), device, int(largest), cases))
