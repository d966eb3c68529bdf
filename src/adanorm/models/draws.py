"""Random masks of a batch whose rows several processes share: those that one process would draw.

All processes draw for the whole batch, from generators in the same state, and take their rows. So
their generators stay in the same state, and the masks do not depend on the number of processes.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn import functional as F

from adanorm.data.examples import WHOLE, Part

_part = WHOLE


@contextmanager
def part_of_batch(part: Part) -> Iterator[None]:
    """Let masks in a block be those of a part of a batch."""
    global _part  # noqa: PLW0603
    outer, _part = _part, part
    try:
        yield
    finally:
        _part = outer


def current_part() -> Part:
    """Return which rows of a batch the tensors of this block have."""
    return _part


def drawn(shape: Sequence[int], draw: Callable[[list[int]], Tensor], *, rows: int = 0) -> Tensor:
    """Return a tensor of a shape that `draw` fills; the axis `rows` is that of the batch's rows."""
    whole = [*shape]
    if _part.world == 1:
        return draw(whole)
    whole[rows] = _part.size
    index = [slice(None)] * rows
    return draw(whole)[(*index, _part.rows)]


def dropout(x: Tensor, p: float, *, rows: int = 0) -> Tensor:
    """Return F.dropout of x in training; the axis `rows` is that of the batch's rows."""
    if _part.world == 1:
        return F.dropout(x, p)
    return x * drawn(x.shape, lambda shape: F.dropout(x.new_ones(shape), p), rows=rows)


def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, p: float) -> Tensor:
    """Return scaled dot-product attention (B, N, T, D), its weights dropped with probability p."""
    if p == 0 or _part.world == 1:
        return F.scaled_dot_product_attention(query, key, value, mask, dropout_p=p)
    keys = key.shape[-2]
    identity = torch.eye(keys, dtype=value.dtype, device=value.device)
    every = identity.expand(*value.shape[:-1], keys)
    weights = F.scaled_dot_product_attention(query, key, every, mask)
    return dropout(weights, p) @ value
