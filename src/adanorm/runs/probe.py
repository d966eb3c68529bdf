"""What a few updates of a run cost on this machine, measured once and kept."""

from __future__ import annotations

import time
from contextlib import closing, suppress
from functools import cache
from itertools import islice
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch

from adanorm.config.experiment import Experiment
from adanorm.config.paths import DRY_RUNS
from adanorm.files import as_json, read_whole, with_checksum, write_whole
from adanorm.records.environment import describe
from adanorm.runs.setup import choose_device, prepare, start_trainer
from adanorm.training.memory import peak_memory

MOST = 4  # updates that are timed
ENOUGH = 60.0  # seconds after which no further one is


class Probe(NamedTuple):
    """What was measured: seconds of a batch, its share of a step included; memory in bytes."""

    device: str
    batch_seconds: float
    peak_memory: int
    parameters: int


def measure(dry_run: Experiment) -> Probe:
    """Return what a batch of a dry run costs; its first update counts only where there is time for one."""
    prepared = prepare(dry_run)
    trainer = start_trainer(dry_run, prepared)
    trainer.model.train()
    spent: list[float] = []
    with closing(trainer.batches()) as updates:
        for batches in islice(updates, MOST):
            started = _now(prepared.device)
            trainer.update(batches)
            spent.append((_now(prepared.device) - started) / len(batches))
            if sum(spent) * len(batches) > ENOUGH:
                break
    found = Probe(
        _device_name(prepared.device),
        median(spent[1:] or spent),
        peak_memory(prepared.device),
        sum(parameter.numel() for parameter in prepared.model.parameters()),
    )
    path = _path(dry_run, found.device)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, as_json(with_checksum(found._asdict())))
    return found


def recall(experiment: Experiment) -> Probe | None:
    """Return what was measured on this device of a run of this task, model and precision, or None."""
    path = _path(experiment, _device_name(choose_device(experiment)))
    with suppress(OSError, ValueError, TypeError):
        return Probe(**read_whole(path.read_bytes()))
    return None


def _path(experiment: Experiment, device: str) -> Path:
    """Return where a probe is kept: norms differ by less than what it is for."""
    name = f"{experiment.task.name}-{experiment.scale}-{experiment.precision}-{experiment.threads}"
    words = "".join(letter if letter.isalnum() else "-" for letter in device)
    return DRY_RUNS / "probes" / f"{name}-{words}.json"


@cache
def _device_name(device: torch.device) -> str:
    return str(describe(device=device, precision="", processes=1, threads=1)["device"])


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
