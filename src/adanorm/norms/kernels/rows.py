"""Running a kernel over the rows of tensors (..., H), as these lie in memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from adanorm.norms.kernels.compiling import Kernel
from adanorm.norms.kernels.teams import run

BLOCKS = 32  # of rows


def run_over_rows(
    kernel: Kernel, takes: str, like: Tensor, *arguments: Any, blocks: int | None = None
) -> None:
    """Run a kernel of rows, features and the arguments over all rows (..., H); tensors by their addresses.

    In 32 blocks, or one a row, unless `blocks` says otherwise.
    """
    features, elements = like.shape[-1], like.numel()
    rows = elements // features
    addresses = [each.data_ptr() if isinstance(each, Tensor) else each for each in arguments]
    blocks = blocks or min(BLOCKS, rows)
    run(kernel, takes, like.dtype, rows, features, *addresses, blocks=blocks, elements=elements)


def dense(x: Tensor) -> Tensor:
    """Return x itself where its rows fill memory: fairseq's are often (T, B, H) that lie as (B, T, H)."""
    if x.is_contiguous() or (x.dim() == 3 and x.transpose(0, 1).is_contiguous()):
        return x
    return x.contiguous()


def as_it_lies(dz: Tensor, x: Tensor) -> Tensor:
    """Return dz as x lies in memory."""
    return dz if dz.stride() == x.stride() else torch.empty_like(x).copy_(dz)
