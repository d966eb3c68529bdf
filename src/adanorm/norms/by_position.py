"""BatchNorm over the examples alone: each position has statistics and running values of its own."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from adanorm.norms.statistics import masked_moments, upcast


class ByPosition(nn.Module):
    """Return (x - mean)/sqrt(variance + eps) of x (B, ..., H), the statistics of a position over B examples.

    The first `positions` have running values, which `new_share` of each batch moves. A position that
    was not `seen` in training takes those of the last one before it that was, as Cooijmans et al. 2017 have
    it behind their longest sequence: in evaluation and, with fewer than two examples, in training.
    """

    running_mean: Tensor
    running_var: Tensor
    seen: Tensor

    def __init__(
        self, dim: int, positions: int, *, eps: float, new_share: float, unbiased: bool, synchronized: bool
    ) -> None:
        super().__init__()
        if positions != int(positions) or positions < 1:
            raise ValueError(f"positions={positions}: must be a whole number above 0")
        self.eps, self.new_share, self.unbiased, self.synchronized = eps, new_share, unbiased, synchronized
        self.register_buffer("running_mean", torch.zeros(int(positions), dim))
        self.register_buffer("running_var", torch.ones(int(positions), dim))
        self.register_buffer("seen", torch.zeros(int(positions), dtype=torch.bool))

    def forward(self, x: Tensor, rows: Tensor | None = None) -> Tensor:
        """Return y (B, ..., H), in float32 at least; `rows` (B, ...) is true at what counts."""
        if x.dim() < 3:
            raise ValueError(f"over=examples: x {tuple(x.shape)} has no positions")
        broad = upcast(x).flatten(1, -2)
        taken = self._stand_in(broad.shape[1])
        mean, variance = self.running_mean[taken].to(broad), self.running_var[taken].to(broad)
        if self.training and len(x):
            counted = None if rows is None else rows.flatten(1)
            own = masked_moments(broad, (0,), counted, synchronized=self.synchronized)
            own_mean, own_variance, count = (each[0] for each in own)
            mean = torch.where(count >= 2, own_mean, mean)
            variance = torch.where(count >= 2, own_variance, variance)
            self._move(own_mean, own_variance, count)
        return ((broad - mean) * (variance + self.eps).rsqrt()).view(x.shape)

    def _stand_in(self, positions: int) -> Tensor:
        """Return whose running values each of so many positions takes; before any was seen, the first's."""
        kept = torch.arange(len(self.seen), device=self.seen.device)
        last = torch.where(self.seen, kept, 0).cummax(0).values
        return last[torch.arange(positions, device=kept.device).clamp(max=len(kept) - 1)]

    @torch.no_grad()
    def _move(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        kept = min(len(mean), len(self.seen))
        if self.unbiased:
            variance = variance * (count / (count - 1).clamp(min=1))
        share = self.new_share * (count[:kept] >= 2).to(self.running_mean.dtype)
        self.running_mean[:kept].lerp_(mean[:kept].to(share), share)
        self.running_var[:kept].lerp_(variance[:kept].to(share), share)
        self.seen[:kept] |= count[:kept, 0] >= 2
