"""Rows standardized over positions, or over the batch too: GroupNorm, InstanceNorm, PowerNorm's start.

x and z are (B, ..., H); `rows` (B, ...) is true at what statistics are taken over, None: all of it.
E examples that have statistics of their own: 1 over the batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from adanorm.norms.statistics import affine, masked_moments, upcast


@dataclass
class Standardized:
    """Code of gain * (x - mean)/sqrt(variance + eps) + bias, the statistics over each example's rows.

    `groups` of features have them together. over_batch: all examples have. Not `centered`, the mean
    is 0. `square` is the variance of the last call, (E, H).
    """

    rows: Tensor | None
    groups: int
    eps: float
    over_batch: bool = False
    centered: bool = True
    square: Tensor | None = None

    def forward(
        self, x: Tensor, gain: Tensor | None, bias: Tensor | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return z by a kernel, and what it found."""
        from adanorm.norms.kernels.numba_columns import normalized

        examples, mask = as_examples(x, self.over_batch), as_mask(self.rows)
        z, found = normalized(examples, gain, bias, mask, self.groups, self.centered, self.eps)
        self.square = found[:, 2]
        return z.view(x.shape), (found,)

    def backward(
        self, dz: Tensor, x: Tensor, gain: Tensor | None, bias: Tensor | None, found: Tensor
    ) -> tuple[Tensor | None, ...]:
        """Return the gradients of x, gain and bias by a kernel."""
        from adanorm.norms.kernels.numba_columns import normalized_gradient

        examples, dz = as_examples(x, self.over_batch), as_examples(dz, self.over_batch)
        mask, choices = as_mask(self.rows), (self.groups, self.centered)
        dx, (dbias, dgain) = normalized_gradient(dz, examples, gain, mask, found, *choices)
        return dx.view(x.shape), None if gain is None else dgain, None if bias is None else dbias

    def eager(self, x: Tensor, gain: Tensor | None, bias: Tensor | None) -> Tensor:
        """Return z by PyTorch's operations."""
        broad = upcast(x)
        dims = list(range(0 if self.over_batch else 1, x.dim() - 1))
        if not self.centered:
            counted = 1 if self.rows is None else self.rows.unsqueeze(-1)
            count = x[..., 0].numel() if self.rows is None else self.rows.sum().clamp(min=1)
            square = (broad * counted).square().sum(dims) / count
            self.square = square.detach().unsqueeze(0)
            return affine((broad / (square + self.eps).sqrt()).to(x.dtype), gain, bias)
        grouped = broad.reshape(*x.shape[:-1], self.groups, x.shape[-1] // self.groups)
        # A group's own rows: (B, ..., groups).
        rows = None if self.rows is None else self.rows.unsqueeze(-1).expand(grouped.shape[:-1])
        mean, variance, _ = masked_moments(grouped, (*dims, x.dim()), rows)
        y = (grouped - mean) * (variance + self.eps).rsqrt()
        return affine(y.flatten(-2).to(x.dtype), gain, bias)


def as_examples(x: Tensor, over_batch: bool) -> Tensor:
    """Return x as (E, P, H) without gaps."""
    return x.reshape(1 if over_batch else len(x), -1, x.shape[-1]).contiguous()


def as_mask(rows: Tensor | None) -> Tensor | None:
    """Return `rows` as bytes without gaps."""
    return None if rows is None else rows.to(torch.uint8).contiguous()
