"""Moments of features over examples and positions, where some positions may be padding."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, distributed
from torch.distributed.nn import functional as joint


def masked_moments(
    x: Tensor, dims: Sequence[int], rows: Tensor | None = None, *, synchronized: bool | None = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean, biased variance and count over `dims` (kept, of size 1) of the rows that count.

    x is (B, ..., H); `rows` (B, ...) is true at what counts, None: all of it. `synchronized` takes them
    over all processes of the run, with their gradients. Where nothing counts, mean and variance are 0.
    """
    counted = torch.ones_like(x[..., :1], dtype=torch.bool) if rows is None else rows.unsqueeze(-1)
    counted, dims = counted.expand_as(x), list(dims)
    count = over_processes(counted.sum(dims, keepdim=True).to(x.dtype), synchronized)
    total = over_processes(x.masked_fill(~counted, 0).sum(dims, keepdim=True), synchronized)
    mean = total / count.clamp(min=1)
    squares = (x - mean).masked_fill(~counted, 0).square().sum(dims, keepdim=True)
    return mean, over_processes(squares, synchronized) / count.clamp(min=1), count


def over_processes(total: Tensor, synchronized: bool | None) -> Tensor:
    """Return the sum of a tensor over the run's processes, with its gradients, or the tensor itself."""
    if not (synchronized and distributed.is_initialized()):
        return total
    summed: Tensor = joint.all_reduce(total)  # type: ignore[no-untyped-call]
    return summed
