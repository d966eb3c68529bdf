"""What a run will need: downloads, disk, memory, hours."""

import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import NamedTuple

import torch

from adanorm import tasks
from adanorm.config.data_sections import DataConfig, ParallelConfig
from adanorm.config.experiment import Experiment
from adanorm.config.titles import counted, in_words
from adanorm.data.catalogue import SOURCES, Source
from adanorm.data.fetch import cache_of, missing_files
from adanorm.records.environment import peak_memory
from adanorm.runs.execute import choose_device, free_bytes, prepare, start_trainer
from adanorm.tasks import AnyBatch
from adanorm.training.loop import Trainer
from adanorm.training.progress import planned_updates

PAIR_BYTES = 1200  # on disk in preparation, per pair of 27 words: text, words, subwords, ids
LONG = 10.0  # seconds of a batch that needs no warming up to be timed
ON_TOP = (
    "on top       on a GPU, minutes per run: evaluations, the test set's outputs, recording graphs"
)
TICK = 10.0  # seconds between two lines of `ticking`


class Probe(NamedTuple):
    """What a batch costs here: seconds, with its share of the step, and memory in bytes."""

    batch_seconds: float
    peak_memory: int
    parameters: int


def measure(dry_run: Experiment) -> Probe:
    """Return what one micro-batch of a dry run costs here.

    Where it takes less than `LONG` seconds, it warms up, and a second one is timed.
    """
    prepared = prepare(dry_run)
    trainer = start_trainer(dry_run, prepared)
    trainer.model.train()
    with closing(trainer.batches()) as updates:
        seconds = _seconds(trainer, next(updates)[:1])
        if seconds < LONG:
            seconds = _seconds(trainer, next(updates)[:1])
    parameters = sum(parameter.numel() for parameter in prepared.model.parameters())
    return Probe(seconds, peak_memory(prepared.device), parameters)


def _seconds(trainer: Trainer, micro_batch: list[AnyBatch]) -> float:
    """Return the seconds of an update on one micro-batch."""
    started = now(trainer.context.device)
    trainer.update(micro_batch)
    return now(trainer.context.device) - started


@contextmanager
def ticking(words: str) -> Iterator[None]:
    """Print `words` to stderr, and while a block runs the seconds that it has taken so far."""
    is_done = threading.Event()
    print(words, file=sys.stderr, flush=True)

    def tick() -> None:
        started = time.monotonic()
        while not is_done.wait(TICK):
            elapsed = round(time.monotonic() - started)
            print(f"             {elapsed} s so far", file=sys.stderr, flush=True)

    ticker = threading.Thread(target=tick, daemon=True)
    ticker.start()
    try:
        yield
    finally:
        is_done.set()
        ticker.join()


def now(device: torch.device) -> float:
    """Return the time in seconds, after waiting for the device to finish its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def needs(experiment: Experiment, gpus: int = 1) -> Iterator[str]:
    """Yield what a run needs that no work is needed to know, one line per thing."""
    device = choose_device(experiment)  # which may be a mistake: before any line
    yield _downloads(experiment.data)
    yield from _preparation(experiment.data)
    yield _device(device)
    yield _update(experiment)
    yield f"expected     {_expected([experiment], min(gpus, experiment.training.accumulate))}"
    yield ON_TOP


def study_needs(
    runs: Sequence[Experiment], missing: Sequence[Experiment], workers: int
) -> list[str]:
    """Return what a study's missing runs need: per task its data and hours, and hours in all.

    `workers` runs are made at a time, each on a GPU of its own.
    """
    done = len(runs) - len(missing)
    lines = [f"runs         {counted(len(runs), 'run')}, {done} on record, {len(missing)} missing"]
    by_task: dict[str, list[Experiment]] = {}
    for run in missing:
        by_task.setdefault(run.task.name, []).append(run)
    for task, of_task in by_task.items():
        lines.append(_downloads(of_task[0].data))
        count = counted(len(of_task), "run")
        lines.append(f"{task:<12} {count}: {_expected(of_task, min(workers, len(of_task)))}")
    if len(by_task) > 1:
        lines.append(f"in all       {_expected(missing, min(workers, len(missing)))}")
    if missing:
        lines.append(ON_TOP)
    return lines


def _expected(runs: Sequence[Experiment], gpus: int) -> str:
    """Return the configuration's hours of runs on a CPU core, on a GPU, and on several at best."""
    on_cpu = sum(run.cost.cpu_hours for run in runs)
    on_gpu = sum(run.gpu_hours for run in runs)
    precision: str = runs[0].precision
    if not all(run.has_gpu_hours for run in runs):
        precision += ", or fp32 where that is not measured"
    text = f"about {in_words(on_cpu)} on one CPU core, {in_words(on_gpu)} on one GPU ({precision})"
    if gpus > 1:
        text += f", at best {in_words(on_gpu / gpus)} on {gpus} GPUs"
    return text


def costs(experiment: Experiment, probe: Probe) -> list[str]:
    """Return what a run costs by what a probe has measured: disk, memory and hours."""
    device, average = choose_device(experiment), experiment.training.average
    averaged = average.count if average else 0
    copies = 2 * 4 + 1 + averaged  # two checkpoints, the best, those averaged
    size, free = _bytes(4 * probe.parameters * copies), _bytes(free_bytes(experiment.folder()))
    disk = f"disk         {size} for checkpoints of {probe.parameters:,} parameters, of {free} free"
    memory = f"memory       {_bytes(probe.peak_memory)} at the peak of a batch"
    if device.type == "cuda":
        total = torch.cuda.get_device_properties(device).total_memory
        fits = "fits" if probe.peak_memory < 0.9 * total else "does not fit"
        memory += f": {fits} into {_bytes(total)}"
    return [disk, memory, _hours(experiment, probe, device)]


def _source(data: DataConfig) -> Source | None:
    """Return the catalogue's entry of data; None if they are the user's own or made up."""
    return None if data.own_files() else SOURCES.get(data.source)


def _downloads(data: DataConfig) -> str:
    lack = data.lacks()
    if lack:
        return f"data         {lack}"
    source = _source(data)
    if source is None:
        return "data         nothing to download"
    missing = missing_files(source, data)
    here = [file.name for file in source.all_files if file not in missing]
    if not missing:
        return f"data         {source.folder}: all {len(here)} files are here: {', '.join(here)}"
    known = [file.size for file in missing if file.size is not None]
    sizes = []
    if sum(known):
        sizes.append(_bytes(sum(known)))
    if len(known) < len(missing):
        sizes.append(f"{len(missing) - len(known)} of unpublished size")
    names = ", ".join(file.name for file in missing)
    files = f"{len(missing)} of {len(source.all_files)} files, {' and '.join(sizes)}: {names}"
    if here:
        files += f"; here: {', '.join(here)}"
    hint = "`adanorm data check=true` asks their addresses"
    return f"downloads    {source.folder}: {files}; {hint}"


def _preparation(data: DataConfig) -> list[str]:
    source = _source(data)
    if not isinstance(data, ParallelConfig) or source is None or source.counts is None:
        return []
    pairs = sum(source.counts)
    size, free = _bytes(PAIR_BYTES * pairs), _bytes(free_bytes(cache_of(data)))
    return [f"preparation  {pairs:,} pairs: {size} on the disk, of {free} free"]


def _device(device: torch.device) -> str:
    if device.type == "cpu":
        return f"devices      no GPU: {counted(len(os.sched_getaffinity(0)), 'CPU core')}"
    gpu = torch.cuda.get_device_properties(device)
    return f"devices      {torch.cuda.device_count()} x {gpu.name}, {_bytes(gpu.total_memory)} each"


def _update(experiment: Experiment) -> str:
    """Return a line on the batches of an update.

    How many processes share them does not change the run.
    """
    data, count = experiment.data, experiment.training.accumulate
    units = {"batch_tokens": "tokens", "batch_size": "examples", "streams": "streams"}
    sizes = {
        unit: getattr(
            data,
            name,
            None,
        )
        for name, unit in units.items()
    }
    size = next(f"{value:,} {unit}" for unit, value in sizes.items() if value is not None)
    if count == 1:
        return f"update       a batch of {size}"
    return f"update       {count} batches of {size}; up to {count} GPUs take whole batches"


def _hours(experiment: Experiment, probe: Probe, device: torch.device) -> str:
    training, data, on_gpu = experiment.training, experiment.data, device.type == "cuda"
    seconds = training.accumulate * probe.batch_seconds
    line, batches = "time         ", 1
    if training.max_epochs:
        line += f"{training.max_epochs} epochs of the data, "
        source = _source(data)
        if data.lacks() or (source and missing_files(source, data)):
            hours = experiment.gpu_hours if on_gpu else experiment.cost.cpu_hours
            line += f"which are not here to be counted, in updates of {seconds:.3g} s;"
            line += f" the configuration expects {in_words(hours)} on one "
            return line + ("GPU" if on_gpu else "CPU core")
        batches = len(tasks.build(experiment).train_batches(0))  # not those of the dry run
    updates = planned_updates(training, batches)
    line += f"{updates:,} updates of {seconds:.3g} s: {in_words(seconds * updates / 3600)}"
    return line + f" on one {'GPU' if on_gpu else 'process'}; evaluations come on top"


def _bytes(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{max(1, round(count / 1e6))} MB"
