"""One measurement of `gpu-check`, made in a process of its own and printed as one line of JSON.

`python -m scripts.gpu_measure speed en-de precision=bf16`; also `equality`, `graphs`, `resume`,
`ranks`, `lost` and `allreduce`. Under torchrun `speed` and `allreduce` measure all processes
together, and the first one prints.
"""

import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import distributed as dist

from adanorm.config.compose import compose_experiment
from adanorm.process import is_first_process
from adanorm.records.environment import peak_memory
from adanorm.runs.execute import choose_device, prepare, start_trainer
from adanorm.runs.plan import now
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
SECONDS = 4.0  # of the measured updates
WARM = 3  # epochs before them with graphs, updates without
WAITS = re.compile(r"(Stream|Event)Synchronize|cudaMemcpy$")
MOST_WARM = 1200  # updates: two epochs of De-En at `small`, after which no shape is new
SPAN = 10  # updates that are measured together, if an epoch is not shorter
NAMES = 40  # the longest kernels that a record names
SAME = 1e-5  # relative: losses differ less from the CPU's unless a norm is wrong in some term


def start(task: str, *settings: str, world: World = ALONE) -> Trainer:
    """Return the trainer of a task under AdaNorm, its model in training mode."""
    experiment = compose_experiment([f"task={task}", "norm=adanorm", *settings])
    trainer = start_trainer(experiment, prepare(experiment), world)
    trainer.model.train()
    return trainer


def speed(task: str, *settings: str) -> Facts:
    """Return milliseconds per update of a whole model, on host and device, memory, hours per run.

    All figures are of the same number of updates, whole epochs of the dry run where these are
    short: an epoch's last update may have fewer batches. Scale, precision and graphs are
    `settings`, scale=paper unless they name another.
    """
    chosen = ["scale=paper", *settings]
    of_run = compose_experiment([f"task={task}", "norm=adanorm", *chosen])
    if of_run.scale == "paper":
        chosen.append("updates=2")
    device = choose_device(of_run)
    with init_distributed(device) as world:
        trainer = start(task, *chosen, world=world)
        trainer.settings = of_run.training  # a dry run accumulates at most two batches
        updates = trainer.batches()
        epoch = math.ceil(len(trainer.task.train_batches(0)) / of_run.training.accumulate)
        span = min(epoch, SPAN)
        # 1) Until nothing is compiled or recorded any more.
        began = now(device)
        _make(trainer, updates, _warming(trainer, epoch))
        first = now(device)
        _make(trainer, updates, span)
        spans = max(1, min(40, int(SECONDS / (now(device) - first))))
        count = span * broadcast(spans, world)  # all processes must make the same number
        # 2) The measured updates.
        started = now(device)
        batches = _make(trainer, updates, count)
        host = time.perf_counter() - started
        whole = now(device) - started
        updates_of_run = UPDATES.get(task) or of_run.training.max_updates or 0
        facts: Facts = {
            "task": task,
            "settings": list(settings),
            "device": describe_device(device),
            "milliseconds": 1000 * whole / count,
            "host_milliseconds": 1000 * host / count,
            "batches": batches / count,
            "updates": count,
            "warm_seconds": first - began,
            "graphs": trainer.graphs.count if trainer.graphs else None,
            "peak_gb": peak_memory(device) / 1e9,
            "processes": world.size,
            "hours": updates_of_run * whole / count / 3600,
        }
        # 3) What the time goes into.
        if world.size == 1 and device.type == "cuda":
            facts |= _profiled(trainer, updates, span)
        if world.size == 1:
            facts |= _evaluated(trainer)
        return facts


def _warming(trainer: Trainer, epoch: int) -> int:
    """Return the number of updates before the measured ones: each shape must come twice."""
    return WARM if trainer.graphs is None else min(WARM * epoch, MOST_WARM)


def _make(trainer: Trainer, updates: Iterator[list[Any]], count: int) -> int:
    """Make so many updates; return the number of their batches."""
    batches = 0
    for micro_batches in islice(updates, count):
        trainer.update(micro_batches)
        batches += len(micro_batches)
    return batches


def describe_device(device: torch.device) -> str:
    """Return the device's name."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


def _profiled(trainer: Trainer, updates: Iterator[list[Any]], count: int) -> Facts:
    """Return an update's kernels, their milliseconds and the longest by name, and the waits."""
    cuda = torch.profiler.ProfilerActivity.CUDA  # the host's operators would fill minutes
    with torch.profiler.profile(activities=[cuda]) as profile:
        batches = _make(trainer, updates, count)
        torch.cuda.synchronize()
    events = profile.events() or []
    on_device = [event for event in events if event.device_type.name == "CUDA"]
    # No ranges like the optimizer's.
    kernels = [event for event in on_device if not event.is_user_annotation]
    waits = [event for event in events if WAITS.search(event.name)]
    numbers: Counter[str] = Counter()
    milliseconds: Counter[str] = Counter()
    for kernel in kernels:
        numbers[kernel.name] += 1
        milliseconds[kernel.name] += kernel.device_time_total / 1000
    longest = [
        {"name": name[:120], "kernels": numbers[name] / count, "milliseconds": spent / count}
        for name, spent in milliseconds.most_common(NAMES)
    ]
    return {
        "profiled_batches": batches / count,
        "kernels": len(kernels) / count,
        "device_milliseconds": sum(milliseconds.values()) / count,
        "waits": len(waits),
        "longest": longest,
    }


def _evaluated(trainer: Trainer) -> Facts:
    """Return the seconds of an evaluation on `valid`, after one that warms up, and its size."""
    device = trainer.context.device
    trainer.measure("valid")
    started = now(device)
    trainer.measure("valid")
    return {
        "evaluation_seconds": now(device) - started,
        "evaluation_size": trainer.task.sizes["valid"],
    }


def equality(case: str, setting: str = "device=cuda") -> Facts:
    """Return the largest relative difference of a case's first losses on a device from the CPU's."""
    tried = setting.removeprefix("device=")
    by_device = {}
    for device in {"cpu": None, tried: None}:
        experiment = experiment_of(case, device)
        prepared = prepare(experiment)
        by_device[device] = losses(start_trainer(experiment, prepared), 4)
    difference = largest_difference(by_device[tried], by_device["cpu"])
    return {"ok": difference < SAME, "difference": difference, "norms": prepared.norm_backend}


def graphs(task: str, *settings: str) -> Facts:
    """Return how far losses by graphs lie from eager ones over 60 updates with dropout.

    A second eager run shows whether the device repeats itself to the bit.
    """
    curves, weights = [], []
    for is_replayed in (False, False, True):
        trainer = start(task, "scale=smoke", "graphs=false", *settings)
        if is_replayed:
            trainer.graphs = trainer.make_graphs()
        curves.append(losses(trainer, 60))
        weights.append([parameter.detach().clone() for parameter in trainer.model.parameters()])
    assert trainer.graphs is not None
    difference, count = largest_difference(curves[2], curves[0]), trainer.graphs.count
    return {
        "ok": difference < 1e-3 and count > 0,
        "difference": difference,
        "same_weights": all(map(torch.equal, weights[2], weights[0])),
        "graphs": count,
        "difference_of_eager": largest_difference(curves[1], curves[0]),
        "same_weights_of_eager": all(map(torch.equal, weights[1], weights[0])),
    }


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
    measures = {m.__name__: m for m in (speed, equality, graphs, resume, ranks, lost, allreduce)}
    facts = measures[sys.argv[1]](*sys.argv[2:])
    if is_first_process():
        print(json.dumps(facts), flush=True)
