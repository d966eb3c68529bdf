"""Relative attention against the paper's equations as written: `python -m scripts.benchmarks.attention`.

Both sides have the same model, weights and batch. The other side computes einsum, relative shift
and softmax as written, and saves all that autograd needs. As many threads as torch takes. The
ratios are speed and peak memory, ours : the other's, each measured in processes of its own.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch.nn import functional as F

from adanorm.config.model_sections import TransformerXlConfig
from adanorm.models.norm_sites import PlacedNorms
from adanorm.models.transformer_xl import TransformerXl
from adanorm.norms import NormChoice, norm_factory
from scripts.benchmarks.harness import (
    Options,
    Row,
    fresh_process,
    peak_mb,
    run_benchmark,
    take_turns,
    timed,
)
from tests.plain_attention import straightforward

STREAMS = 2
PEAKS = 3  # at most so many processes are measured for their peak memory
TOKENS = {"training": 512 * STREAMS, "evaluation": 80 * STREAMS}  # per step
# Unless the process keeps its memory, as under make, large tensors cost page faults anew at each
# step.
ALLOCATORS: dict[str, dict[str, str | None]] = {
    "handed back": {"MALLOC_TRIM_THRESHOLD_": None, "MALLOC_MMAP_THRESHOLD_": None},
    "kept": {"MALLOC_TRIM_THRESHOLD_": "1000000000", "MALLOC_MMAP_THRESHOLD_": "1000000000"},
}
SIZES: dict[str, Any] = {"layers": 12, "dim": 512, "heads": 8, "head_dim": 64, "ffn_dim": 2048}


def measure(options: Options) -> Iterator[Row]:
    """Yield one row of speed and peak memory per kind of work and allocator setting."""
    for named, settings in ALLOCATORS.items():
        for work in TOKENS:
            row = fresh_process(_compared, work, options.rounds, environment=settings)
            yield {**row, "memory_is": named}


def _compared(work: str, rounds: int) -> Row:
    seconds = take_turns({name: timed(_step(work, name)) for name in ("ours", "other")}, rounds)
    peaks = {
        name: partial(fresh_process, _peak, work, name) for name in ("ours", "other", "neither")
    }
    memory = take_turns(peaks, min(rounds, PEAKS), warm_up=0)
    speeds = {side: round(TOKENS[work] / seconds.median(side), 1) for side in ("ours", "other")}
    row = {"what": work, "unit": "tokens/s", **speeds, "ratio": seconds.ratio("other", "ours")}
    row |= {f"{side}_peak_mb": round(memory.median(side)) for side in ("ours", "other")}
    row["memory_ratio"] = memory.ratio("ours", "other")
    return row | {"without_steps_mb": round(memory.median("neither"))}


def _step(work: str, name: str) -> Callable[[], None]:
    """Return a function that makes one update's forward and backward pass, or one test segment."""
    torch.manual_seed(0)
    make_norm = PlacedNorms(norm_factory(NormChoice("layernorm")), "all")
    settings = TransformerXlConfig(name="transformer_xl", **SIZES, dropout=0.1, pre_norm=False)
    model = TransformerXl(make_norm, settings)
    for layer in model.layers if name == "other" else []:
        layer.attention = straightforward  # type: ignore[assignment]
    length, remember = (512, 512) if work == "training" else (80, 2100)
    segment = torch.randint(256, (STREAMS, length))
    memory = [torch.randn(STREAMS, remember, SIZES["dim"]) for _ in range(SIZES["layers"])]

    def train() -> None:
        model.train()
        model.zero_grad()
        logits, _ = model(segment, memory, remember=remember)
        F.cross_entropy(logits.flatten(0, 1), segment.flatten()).backward()  # type: ignore[no-untyped-call]

    def evaluate() -> None:
        model.eval()
        with torch.inference_mode():
            model(segment, memory, remember=remember, clamp=820, same_length=True)

    return train if work == "training" else evaluate


def _peak(work: str, name: str) -> float:
    """Return the peak memory, in MB, of a process that makes two steps; for `neither`, none."""
    step = _step(work, name)
    for _ in range(0 if name == "neither" else 2):
        step()
    return peak_mb()


if __name__ == "__main__":
    run_benchmark(measure, rounds=5, threads=None)
