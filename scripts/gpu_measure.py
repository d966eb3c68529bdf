"""One measurement of `gpu-check`, made in a process of its own and printed as one line of JSON.

`python -m scripts.gpu_measure speed en-de bf16`; also `equality`, `resume`, `ranks`, `lost`,
`allreduce`. Under torchrun `speed` and `allreduce` measure all processes together, and the first
one prints.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import distributed as dist

from adanorm.config.compose import compose_experiment
from adanorm.process import is_first_process
from adanorm.records.environment import peak_memory
from adanorm.runs.plan import now
from adanorm.runs.setup import choose_device, prepare, start_trainer
from adanorm.training.distributed import ALONE, World, broadcast, init_distributed
from adanorm.training.loop import Trainer
from scripts.processes import (
    CASES,
    differences,
    experiment_of,
    free_port,
    largest_difference,
    losses,
    main,
)

Facts = dict[str, Any]
UPDATES = {"mnist": 34_400, "rt": 430, "sst5": 430, "ptb": 56_000}  # per run at the paper's size
SECONDS, AT_LEAST, WARM = (
    4.0,
    5,
    3,
)  # time and least number of measured updates; updates before them


def start(task: str, *settings: str, world: World = ALONE) -> Trainer:
    """Return the trainer of a task under AdaNorm, its model in training mode."""
    experiment = compose_experiment([f"task={task}", "norm=adanorm", *settings])
    trainer = start_trainer(experiment, prepare(experiment), world)
    trainer.model.train()
    return trainer


def speed(task: str, precision: str, *settings: str) -> Facts:
    """Return milliseconds per update of a whole model (host and device), its memory, and hours per run."""
    chosen = ("scale=paper", f"precision={precision}", *settings)
    of_run = compose_experiment([f"task={task}", "norm=adanorm", *chosen])
    device = choose_device(of_run)
    with init_distributed(device) as world:
        trainer = start(task, *chosen, "updates=2", world=world)
        trainer.settings = of_run.training  # a dry run accumulates at most two batches
        updates = trainer.batches()
        for batches in islice(updates, WARM):
            trainer.update(batches)
        first = now(device)
        trainer.update(next(updates))
        count = max(AT_LEAST, min(200, int(SECONDS / (now(device) - first))))
        count = broadcast(count, world)  # all processes must make the same number
        started = now(device)
        for batches in islice(updates, count):
            trainer.update(batches)
        host, whole = time.perf_counter() - started, now(device) - started
        facts: Facts = {
            "milliseconds": 1000 * whole / count,
            "host_milliseconds": 1000 * host / count,
        }
        updates_of_run = UPDATES.get(task) or of_run.training.max_updates or 0
        facts |= {
            "peak_gb": peak_memory(device) / 1e9,
            "processes": world.size,
            "batches": len(batches),
        }
        facts["hours"] = updates_of_run * whole / count / 3600
        return (
            facts
            if world.size > 1 or device.type == "cpu"
            else facts | _profiled(trainer, next(updates))
        )


def _profiled(trainer: Trainer, batches: list[Any]) -> Facts:
    """Return the number of kernels of an update, the milliseconds in them, and how often the host waited."""
    with torch.profiler.profile() as profile:
        trainer.update(batches)
        torch.cuda.synchronize()
    events = profile.events() or []
    on_device = [event for event in events if event.device_type.name == "CUDA"]
    kernels = [
        event for event in on_device if not event.is_user_annotation
    ]  # no ranges like the optimizer's
    waits = [
        event for event in events if re.search(r"(Stream|Event)Synchronize|cudaMemcpy$", event.name)
    ]
    milliseconds = sum(event.device_time_total for event in kernels) / 1000
    return {"kernels": len(kernels), "device_milliseconds": milliseconds, "waits": len(waits)}


def equality(task: str) -> Facts:
    """Return the largest relative difference of a case's first losses on CUDA from those on the CPU."""
    by_device = {}
    for device in ("cpu", "cuda"):
        experiment = experiment_of(task, device)
        prepared = prepare(experiment)
        by_device[device] = losses(start_trainer(experiment, prepared), 4)
    difference = largest_difference(by_device["cuda"], by_device["cpu"])
    return {"ok": difference < 2e-3, "difference": difference, "norms": prepared.norm_backend}


def resume(task: str, *settings: str) -> Facts:
    """Return whether a resumed run has the losses and the speed of one that never stopped."""
    half, curves, seconds = 12, [], []
    with tempfile.TemporaryDirectory() as folder:
        for before, to_checkpoint in ((half, Trainer.save), (WARM, Trainer.resume)):
            # One after the other, since both draw their dropout masks from one generator.
            trainer = start(task, *settings)
            losses(trainer, before)
            to_checkpoint(trainer, Path(folder) / "checkpoint.pt")
            started = now(device := trainer.context.device)
            curves.append(losses(trainer, half))
            seconds.append(now(device) - started)
    difference, ratio = largest_difference(*curves), seconds[1] / seconds[0]
    is_as_fast = ratio < 1.3 or device.type == "cpu"  # other programs may slow the CPU
    return {
        "ok": difference < 1e-4 and is_as_fast,
        "difference": difference,
        "times_as_long": ratio,
    }


def ranks(device: str, largest: str) -> Facts:
    """Return, by case, how far losses by 2, 1 and all processes in turn lie from those by one process."""
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder), device, int(largest), tuple(CASES))
        by_case = differences(Path(folder))
    return {"ok": max(by_case.values()) < 1e-3, "differences": by_case}


def lost(device: str) -> Facts:
    """Return how the first of a run's two processes ends after the second is killed: seconds, code, line.

    They have torchrun's variables but are started without it: torchrun would end the first process
    before that notices the loss. On other nodes torchrun cannot do so.
    """
    world = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    with tempfile.TemporaryDirectory() as folder:
        run = (
            "task=mnist",
            "norm=adanorm",
            "scale=smoke",
            "training.max_epochs=100000",
            f"runs={folder}",
        )
        command = (sys.executable, "-m", "adanorm", "run", *run, f"device={device}")
        first, second = (
            subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                env={**os.environ, **world, "RANK": rank, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": "2"},
            )
            for rank in ("0", "1")
        )  # fmt: skip
        while not list(Path(folder).rglob("metrics.jsonl")) and first.poll() is None:
            time.sleep(0.2)
        second.kill()
        killed = time.perf_counter()
        try:
            printed, _ = first.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            first.kill()
            return {"ok": False, "why": "still running a minute after a process was killed"}
        finally:
            second.communicate()
        seconds = time.perf_counter() - killed
    has_line = "another process of this run has ended" in printed
    return {
        "ok": seconds < 20 and has_line,
        "seconds": seconds,
        "code": first.returncode,
        "said": has_line,
    }


def allreduce() -> Facts:
    """Return the bandwidth (GB/s) of a sum of 256 MB over all processes, as NCCL's tests count it."""
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    with init_distributed(device) as world:
        numbers = torch.zeros(2**26, device=device)
        for _ in range(5):
            dist.all_reduce(numbers)
        started = now(device)
        for _ in range(20):
            dist.all_reduce(numbers)
        rate = 20 * numbers.nbytes / (now(device) - started) / 1e9
        return {"processes": world.size, "gb_per_second": rate * 2 * (world.size - 1) / world.size}


if __name__ == "__main__":
    measures = {m.__name__: m for m in (speed, equality, resume, ranks, lost, allreduce)}
    facts = measures[sys.argv[1]](*sys.argv[2:])
    if is_first_process():
        print(json.dumps(facts), flush=True)
