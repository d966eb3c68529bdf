"""Rows in the order that memory has them, and their blocks over threads."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import torch
from torch import Tensor

from adanorm.norms.statistics import upcast

GRAIN = 1 << 16  # elements that are worth a thread
BLOCKS = 8  # a thread: one that comes late takes fewer


def in_memory_order(x: Tensor) -> tuple[Tensor, int]:
    """Return x with its rows in an order that memory may have, and `across`."""
    rows = upcast(x).detach()
    if rows.dim() == 3 and not rows.is_contiguous():
        batch_first = rows.transpose(0, 1)
        if batch_first.is_contiguous():
            return batch_first, rows.shape[1]
    return rows.contiguous(), 0


def run_over_rows(kernel: Callable[..., None], like: Tensor, *arguments: Any) -> None:
    """Run a kernel over all rows of tensors (..., H) with torch's number of threads, this one among them."""
    features = like.shape[-1]
    size = like.numel()
    count = size // max(features, 1)
    threads = min(torch.get_num_threads(), size // GRAIN)
    if threads < 2:
        kernel(0, count, count, features, *arguments)
        return
    step = -(-count // (BLOCKS * threads))
    starts = iter(range(0, count, step))  # next() on it is atomic: no block is done twice

    def work() -> None:
        for start in starts:
            kernel(start, min(start + step, count), count, features, *arguments)

    others = [_pool(os.getpid(), threads - 1).submit(work) for _ in range(threads - 1)]
    work()
    for other in others:
        if not other.cancel():  # one that has not begun finds nothing left to do
            other.result()


@cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Return this process's threads; a forked child has none of its parent's."""
    return ThreadPoolExecutor(threads, thread_name_prefix=f"norms-{process}")
