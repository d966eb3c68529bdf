"""How long a piece of work takes on a device, and what autograd keeps of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

Work = Callable[[], Any]


def prepared(work: Work, device: torch.device) -> Work:
    """Return the work as it is timed: on CUDA captured in a graph, so that only kernels count.

    A busy GPU hides what launching costs; a short piece of work alone would show nothing else.
    """
    if device.type == "cpu":
        return work
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def seconds(work: Work, device: torch.device) -> float:
    """Return how long prepared work takes once; on CUDA with a cold cache."""
    if device.type == "cpu":
        started = time.perf_counter()
        work()
        return time.perf_counter() - started
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    _flood(device).zero_()
    start.record()
    work()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1e3


@cache
def _flood(device: torch.device) -> Tensor:
    """Return a tensor larger than any cache of a GPU."""
    return torch.empty(1 << 28, dtype=torch.int8, device=device)


def saved_bytes(forward: Work) -> int:
    """Return the bytes that autograd keeps of a forward pass, parameters aside."""
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        if not isinstance(tensor, nn.Parameter):
            kept[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        forward()
    return sum(kept.values())
