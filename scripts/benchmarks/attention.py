"""Relative attention against the paper's equations as written: `python -m scripts.benchmarks.attention`.

The same model, weights and batch; the other side computes einsum, relative shift and softmax as they are
written, and autograd keeps what it keeps. One thread a core of this machine.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from adanorm.models.norm_sites import PlacedNorms
from adanorm.models.relative_attention import relative_attention
from adanorm.models.transformer_xl import TransformerXl
from adanorm.norms import NormChoice, norm_factory
from scripts.benchmarks import results
from scripts.benchmarks.memory import peak_mb

ROUNDS, STREAMS = 5, 2
# Large tensors cost a fault a page anew at each step, unless the process keeps their memory, as under make.
MAKE_SETS = {"MALLOC_TRIM_THRESHOLD_": "1000000000", "MALLOC_MMAP_THRESHOLD_": "1000000000"}
ALLOCATORS = {"handed back": {}, "kept": MAKE_SETS}  # type: dict[str, dict[str, str]]
SIZES: dict[str, Any] = {"layers": 12, "dim": 512, "heads": 8, "head_dim": 64, "ffn_dim": 2048}


def straightforward(
    query: Tensor, key: Tensor, value: Tensor, distance: Tensor, u: Tensor, v: Tensor, forbidden: Tensor
) -> Tensor:
    """Return what relative_attention does, as Dai et al. 2019, section 3.3 and appendix B write it.

    Time leads, as it does in their formulation: scores are (T, S, B, N).
    """
    q, k, values = (tensor.permute(2, 0, 1, 3) for tensor in (query, key, value))
    content = torch.einsum("ibnd,jbnd->ijbn", q + u, k)
    position = torch.einsum("ibnd,jnd->ijbn", q + v, distance.transpose(0, 1))
    time_, keys, streams, heads = position.shape
    padded = torch.cat([position.new_zeros(time_, 1, streams, heads), position], 1)
    position = padded.view(keys + 1, time_, streams, heads)[1:].view_as(position)
    scores = (content + position) / query.shape[-1] ** 0.5
    p = scores.masked_fill(forbidden[:, :, None, None], -torch.inf).softmax(1)
    return torch.einsum("ijbn,jbnd->ibnd", p, values).permute(1, 2, 0, 3)


def main() -> None:
    """Print speed and peak memory of training and evaluation, and write results/bench/attention.csv."""
    rows = [
        {**row, "memory_is": named}
        for named, settings in ALLOCATORS.items()
        for row in _measured_under(settings)
    ]
    results.write("attention", rows, threads=torch.get_num_threads())


def _measured_under(settings: dict[str, str]) -> list[dict[str, Any]]:
    """Return the rows of both works, measured by a process that takes memory by these settings."""
    for name in MAKE_SETS:
        os.environ.pop(name, None)
    os.environ.update(settings)
    # A fresh process: the C library reads them as it starts.
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return [process.submit(_compared, work).result() for work in ("training", "evaluation")]


def _compared(work: str) -> dict[str, Any]:
    steps = {name: _step(work, name) for name in ("ours", "other")}
    seconds: dict[str, list[float]] = {"ours": [], "other": []}
    for round_ in range(ROUNDS + 1):
        for name, step in steps.items():
            started = time.perf_counter()
            step()
            if round_:  # the first is for warming up
                seconds[name].append(time.perf_counter() - started)
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        memory = {name: pool.apply(_peak, (work, name)) for name in ("ours", "other", "neither")}
    ratios = [other / ours for ours, other in zip(seconds["ours"], seconds["other"], strict=True)]
    tokens = STREAMS * (512 if work == "training" else 80)
    row = {
        "what": work,
        "unit": "tokens/s",
        "ours": round(tokens / median(seconds["ours"]), 1),
        "other": round(tokens / median(seconds["other"]), 1),
        "ratio": round(median(ratios), 3),
        "lowest": round(min(ratios), 3),
        "highest": round(max(ratios), 3),
        "ours_peak_mb": round(memory["ours"]),
        "other_peak_mb": round(memory["other"]),
        "memory_ratio": round(memory["ours"] / memory["other"], 3),
        "without_steps_mb": round(memory["neither"]),
        "rounds": ROUNDS,
        "threads": torch.get_num_threads(),
    }
    print(
        f"{work}: {row['ours']:,} against {row['other']:,} tokens/s, ratio {row['ratio']} ({row['lowest']} to"
        f" {row['highest']}); peak {row['ours_peak_mb']:,} against {row['other_peak_mb']:,} MB,"
        f" ratio {row['memory_ratio']} ({row['without_steps_mb']:,} MB before any step)",
        flush=True,
    )
    return row


def _step(work: str, name: str) -> Callable[[], None]:
    """Return one update's forward and backward pass, or one segment of the test, as a function."""
    attention = relative_attention if name == "ours" else straightforward
    torch.manual_seed(0)
    make_norm = PlacedNorms(norm_factory(NormChoice("layernorm")), "all")
    model = TransformerXl(make_norm, **SIZES, dropout=0.1, pre_norm=False, attention=attention)
    time_, remember = (512, 512) if work == "training" else (80, 2100)
    segment = torch.randint(256, (STREAMS, time_))
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
    """Return the peak memory of a process that does two steps, in MB; `neither`: that does none."""
    step = _step(work, name)
    for _ in range(0 if name == "neither" else 2):
        step()
    return peak_mb()


if __name__ == "__main__":
    main()
