"""Statistics over examples and positions, where some positions may be padding, and gain and bias.

B batch, H features. x is (B, ..., H); `rows` (B, ...) is true at what counts, None: all of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, distributed, nn
from torch.distributed.nn import functional as joint

from adanorm.norms.base import Norm


def upcast(x: Tensor) -> Tensor:
    """Return x in float32 at least: what statistics are computed in."""
    return x if x.dtype in _WIDE else x.float()


_WIDE = (torch.float32, torch.float64)


def masked_moments(
    x: Tensor, dims: Sequence[int], rows: Tensor | None = None, *, synchronized: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean, biased variance and count over `dims` (kept, of size 1) of the rows that count.

    `synchronized` takes them over all processes of the run, with their gradients. Where nothing
    counts, mean and variance are 0.
    """
    counted = torch.ones_like(x[..., :1], dtype=torch.bool) if rows is None else rows.unsqueeze(-1)
    counted, dims = counted.expand_as(x), list(dims)
    count = _over_processes(counted.sum(dims, keepdim=True).to(x.dtype), synchronized)
    total = _over_processes(x.masked_fill(~counted, 0).sum(dims, keepdim=True), synchronized)
    mean = total / count.clamp(min=1)
    squares = (x - mean).masked_fill(~counted, 0).square().sum(dims, keepdim=True)
    return mean, _over_processes(squares, synchronized) / count.clamp(min=1), count


def _over_processes(total: Tensor, synchronized: bool) -> Tensor:
    if not (synchronized and distributed.is_initialized()):
        return total
    if not total.requires_grad:
        distributed.all_reduce(total)
        return total
    summed: Tensor = joint.all_reduce(total)  # type: ignore[no-untyped-call]
    return summed


class Affine(Norm):
    """A gain of ones and a bias of zeros, each (H,), or without one or both: None.

    `zero_centered`, what is learned is the gain less one. It has a name of its own, since who reads a
    `weight` takes it for a gain.
    """

    def __init__(self, dim: int, *, gain: bool, bias: bool, zero_centered: bool = False) -> None:
        super().__init__()
        self.dim = dim
        self.weight = nn.Parameter(torch.ones(dim)) if gain and not zero_centered else None
        self.gain_less_one = gain_less_one(dim, gain=gain) if zero_centered else None
        self.bias = nn.Parameter(torch.zeros(dim)) if bias else None

    def affine(self, y: Tensor) -> Tensor:
        """Return gain * y + bias, (..., H)."""
        return affine(y, self.weight, self.bias)

    def check_features(self, x: Tensor) -> None:
        """Raise ValueError where the last axis of x is not H."""
        if x.shape[-1] != self.dim:
            raise ValueError(f"{type(self).__name__}({self.dim}): the last axis has {x.shape[-1]} features")


def gain_less_one(*shape: int, gain: bool) -> nn.Parameter:
    """Return g of a gain 1 + g, zeros of a shape; raises ValueError where there is no gain."""
    if not gain:
        raise ValueError("zero_centered=True: needs gain=true, which it is about")
    return nn.Parameter(torch.zeros(*shape))


def affine(y: Tensor, gain: Tensor | None, bias: Tensor | None) -> Tensor:
    """Return gain * y + bias, (..., H); None is neither."""
    if gain is not None:
        y = y * gain
    return y if bias is None else y + bias


def check_eps(eps: float) -> None:
    """Raise ValueError unless eps is above 0."""
    if not 0 < eps < float("inf"):
        raise ValueError(f"eps={eps}: must be above 0 and finite")
