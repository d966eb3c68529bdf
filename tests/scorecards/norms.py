"""Norms of somebody else's: two of ours under other names, one with another eps, one that breaks."""

from typing import Any

import torch
from torch import Tensor, nn

from adanorm.norms import AdaNorm


class Renamed(AdaNorm):
    """AdaNorm by another name."""


class WrittenOut(nn.Module):
    """LayerNorm written out."""

    def __init__(self, dim: int, *, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.g, self.b = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor) -> Tensor:
        centered = x - x.mean(-1, keepdim=True)
        return (
            self.g * centered / (centered.square().mean(-1, keepdim=True) + self.eps).sqrt()
            + self.b
        )


class OtherEps(WrittenOut):
    """LayerNorm written out, with a larger eps."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim, eps=1e-3)


class NoGain(WrittenOut):
    """LayerNorm at its first step, whose gain learns nothing."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.g.requires_grad = False


class Broken(WrittenOut):
    """A norm that is no function of its input's type."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).float()


class _Slow(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, dz: Tensor) -> Tensor:
        for _ in range(500):
            dz = dz + 0
        return dz


class SlowBackward(WrittenOut):
    """A norm whose backward pass does far more work than its forward pass."""

    def forward(self, x: Tensor) -> Tensor:
        return _Slow.apply(super().forward(x))  # type: ignore[no-untyped-call]
