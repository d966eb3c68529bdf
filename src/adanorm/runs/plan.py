"""What a run needs before any of it is done: downloads, preparation, disk, memory, hours."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import torch

from adanorm.config.data_sections import ParallelConfig
from adanorm.config.experiment import Experiment
from adanorm.data.catalogue import SOURCES, File
from adanorm.data.fetch import cache_of, missing_files
from adanorm.data.translation.preparation import cores
from adanorm.data.translation.tokenization import Tokenizer
from adanorm.runs.auto_scale import in_words
from adanorm.runs.duration import Durations
from adanorm.runs.probe import Probe
from adanorm.runs.setup import choose_device

PAIR_BYTES = 1200  # of a pair of 27 words on the disk while a corpus is prepared: text, words, subwords, ids
LINES = 200  # that are split into words to see how long it takes
OTHER_STEPS = 1.6  # what subwords, counting and token ids add to splitting into words


def plan(experiment: Experiment, probe: Probe | None) -> list[str]:
    """Return what a run needs, a line a thing; without a probe nothing of hours and memory."""
    lines = [*_data(experiment), *_preparation(experiment), _devices(experiment), _batches(experiment)]
    if probe is None:
        return lines
    return [*lines, _disk(experiment, probe), _memory(experiment, probe), _hours(experiment, probe)]


def _data(experiment: Experiment) -> list[str]:
    data = experiment.data
    if lacks := data.lacks():
        return [f"data         {lacks}"]
    source = None if experiment.own_data else SOURCES.get(data.source)
    if source is None:
        return ["data         nothing to download"]
    missing = missing_files(source, data)
    if not missing:
        return [f"data         {source.folder}: all {len(source.files)} files are here"]
    return [
        f"downloads    {source.folder}: {len(missing)} of {len(source.files)} files, {_size(missing)};"
        " `adanorm data check=true` asks their addresses"
    ]


def _size(files: list[File]) -> str:
    known = sum(file.size or 0 for file in files)
    unknown = sum(file.size is None for file in files)
    said = [_bytes(known)] if known else []
    return " and ".join([*said, *([f"{unknown} of unpublished size"] if unknown else [])])


def _preparation(experiment: Experiment) -> list[str]:
    data = experiment.data
    source = None if experiment.own_data else SOURCES.get(data.source)
    if not isinstance(data, ParallelConfig) or source is None or source.counts is None:
        return []
    pairs, tokenizers = sum(source.counts), [Tokenizer(language, data) for language in data.languages]
    line = "The quick brown fox, says Mr. Smith, jumps over the lazy dog (1,000 times): it isn't hard. "
    started = time.perf_counter()
    for _ in range(LINES):
        for tokenizer in tokenizers:
            tokenizer.split(line)
    hours = OTHER_STEPS * pairs * (time.perf_counter() - started) / LINES / cores() / 3600
    free = _free(cache_of(data))
    return [
        f"preparation  {pairs:,} pairs in {cores()} processes: about {in_words(hours)}, and the learning of"
        f" subwords; {_bytes(PAIR_BYTES * pairs)} on the disk, of {_bytes(free)} free",
    ]


def _devices(experiment: Experiment) -> str:
    device = choose_device(experiment)
    if device.type == "cpu":
        return f"devices      no GPU: {cores()} CPU cores, {experiment.threads} used by a process"
    memory = torch.cuda.get_device_properties(device).total_memory
    count, name = torch.cuda.device_count(), torch.cuda.get_device_name(device)
    return f"devices      {count} x {name}, {_bytes(memory)} each"


def _batches(experiment: Experiment) -> str:
    """Return how an update is shared out; more processes leave the experiment what it is."""
    data, count = experiment.data, experiment.training.accumulate
    size = next(
        f"{value:,} {name.removeprefix('batch_').replace('size', 'examples')}"
        for name in ("batch_tokens", "batch_size", "streams")
        if (value := getattr(data, name, None)) is not None
    )
    each = f"{count} batches of {size}" if count > 1 else f"a batch of {size}"
    shared = f"; up to {count} processes take whole batches" if count > 1 else ""
    return f"update       {each}{shared}"


def _disk(experiment: Experiment, probe: Probe) -> str:
    average = experiment.training.average
    copies = 2 * 4 + 1 + (average.count if average else 0)  # two checkpoints, the best, those averaged
    return (
        f"disk         {_bytes(4 * probe.parameters * copies)} for checkpoints of {probe.parameters:,}"
        f" parameters, of {_bytes(_free(experiment.folder()))} free"
    )


def _memory(experiment: Experiment, probe: Probe) -> str:
    device = choose_device(experiment)
    where = f"memory       {_bytes(probe.peak_memory)} at the peak of a batch"
    if device.type == "cpu":
        return where
    total = torch.cuda.get_device_properties(device).total_memory
    return f"{where}: {'fits' if probe.peak_memory < 0.9 * total else 'does not fit'} into {_bytes(total)}"


def _hours(experiment: Experiment, probe: Probe) -> str:
    seconds = experiment.training.accumulate * probe.batch_seconds
    epochs, updates = experiment.training.max_epochs, experiment.training.max_updates
    if epochs is not None or updates is None:
        whole = in_words(Durations().seconds_left(experiment, "missing") / 3600)
        return f"time         {seconds:.3g} s an update; {epochs} epochs of the data, about {whole}"
    device = choose_device(experiment)
    count = torch.cuda.device_count() if device.type == "cuda" else 1
    many = f", {in_words(seconds * updates / 3600 / count)} on {count}" if count > 1 else ""
    return (
        f"time         {updates:,} updates of {seconds:.3g} s: {in_words(seconds * updates / 3600)} on one"
        f" {'GPU' if device.type == 'cuda' else 'process'}{many}; evaluations come on top"
    )


def _free(path: Path) -> int:
    existing = next(place for place in (path, *path.parents) if place.exists())
    return shutil.disk_usage(existing).free


def _bytes(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{max(1, round(count / 1e6))} MB"
