"""Norms whose statistics are taken over the positions of one example, such as an image's pixels.

x and the result are (B, positions ..., H). Of padded sequences the caller tells which rows count.
"""

from __future__ import annotations

import torch
from torch import Tensor

from adanorm.norms.base import Affine, check_positive, upcast
from adanorm.norms.statistics import masked_moments


class GroupNorm(Affine):
    """Return gain * (x - mean)/sqrt(variance + eps) + bias, statistics over a group of features.

    Wu & He 2018, equation 2: of one example, over its positions too unless `over_positions` is false;
    each position then stands alone. Raises ValueError unless `groups` divides H.
    """

    depends_on_positions = True

    def __init__(
        self,
        dim: int,
        *,
        groups: int = 8,
        over_positions: bool = True,
        eps: float = 1e-5,
        gain: bool = True,
        bias: bool = True,
    ) -> None:
        super().__init__(dim, gain=gain, bias=bias)
        check_positive(eps=eps)
        if groups < 1 or groups != int(groups) or dim % groups:
            raise ValueError(f"groups={groups}: must be a whole number that divides the {dim} features")
        self.groups, self.depends_on_positions, self._eps = int(groups), over_positions, eps

    def forward(self, x: Tensor, rows: Tensor | None = None) -> Tensor:
        """Return z (B, ..., H); `rows` (B, ...) is true at the rows that statistics are taken over."""
        wide = upcast(x)
        if not self.depends_on_positions:
            y = self._by_torch(wide.reshape(-1, self.dim)).view(x.shape)
        elif rows is None:
            y = self._by_torch(wide.movedim(-1, 1)).movedim(1, -1).contiguous()
        else:
            y = self._masked(wide, rows)
        return self.affine(y, x)

    def _by_torch(self, x: Tensor) -> Tensor:
        """Return y of x (B, H, positions ...)."""
        return torch.group_norm(x, self.groups, eps=self._eps) if x.numel() else x

    def _masked(self, x: Tensor, rows: Tensor) -> Tensor:
        """Return y of x (B, positions ..., H), the statistics over the rows that count."""
        grouped = x.reshape(*x.shape[:-1], self.groups, -1)
        counted = rows.unsqueeze(-1).expand(grouped.shape[:-1])  # a group's own: (B, ..., groups)
        dims = (*range(1, x.dim() - 1), x.dim())
        mean, variance, _ = masked_moments(grouped, dims, counted)
        y: Tensor = (grouped - mean) * (variance + self._eps).rsqrt()
        return y.flatten(-2)


class InstanceNorm(GroupNorm):
    """Return (x - mean)/sqrt(variance + eps), each feature's statistics over an example's positions.

    Ulyanov et al. 2016; without gain and bias unless asked for. Raises ValueError for x (B, H),
    which has no positions.
    """

    needs_positions = True

    def __init__(self, dim: int, *, eps: float = 1e-5, gain: bool = False, bias: bool = False) -> None:
        super().__init__(dim, groups=dim, eps=eps, gain=gain, bias=bias)
