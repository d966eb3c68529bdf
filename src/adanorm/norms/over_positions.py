"""Norms whose statistics are taken over the positions of one example, such as an image's pixels.

x and the result are (B, positions ..., H). Of padded sequences the caller tells which rows count.
"""

from __future__ import annotations

from torch import Tensor

from adanorm.norms.statistics import Affine, check_eps, masked_moments, upcast


class InstanceNorm(Affine):
    """Return (x - mean)/sqrt(variance + eps), each feature's statistics over an example's positions.

    Ulyanov et al. 2016; without gain and bias unless asked for. Raises ValueError for x (B, H),
    which has no positions.
    """

    depends_on_positions = True
    needs_positions = True

    def __init__(self, dim: int, *, eps: float = 1e-5, gain: bool = False, bias: bool = False) -> None:
        super().__init__(dim, gain=gain, bias=bias)
        check_eps(eps)
        self._eps = eps

    def forward(self, x: Tensor, rows: Tensor | None = None) -> Tensor:
        """Return z (B, ..., H); `rows` (B, ...) is true at the rows that statistics are taken over."""
        self.check_features(x)
        if x.dim() < 3:
            raise ValueError(f"InstanceNorm: x {tuple(x.shape)} has no positions between batch and features")
        dims = tuple(range(1, x.dim() - 1))
        broad = upcast(x)
        mean, variance, _ = masked_moments(broad, dims, rows)
        return self.affine(((broad - mean) * (variance + self._eps).rsqrt()).to(x.dtype))


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
        check_eps(eps)
        if groups < 1 or groups != int(groups) or dim % groups:
            raise ValueError(f"groups={groups}: must be a whole number that divides the {dim} features")
        self.groups, self.over_positions, self._eps = int(groups), over_positions, eps
        self.depends_on_positions = over_positions

    def forward(self, x: Tensor, rows: Tensor | None = None) -> Tensor:
        """Return z (B, ..., H); `rows` (B, ...) is true at the rows that statistics are taken over."""
        self.check_features(x)
        broad = upcast(x)
        grouped = broad.reshape(*x.shape[:-1], self.groups, self.dim // self.groups)
        positions = range(1, x.dim() - 1) if self.over_positions else ()
        # A group's own rows: (B, ..., groups).
        counted = rows.unsqueeze(-1).expand(*x.shape[:-1], self.groups) if rows is not None else None
        mean, variance, _ = masked_moments(
            grouped, (*positions, x.dim()), counted if self.over_positions else None
        )
        y = (grouped - mean) * (variance + self._eps).rsqrt()
        return self.affine(y.flatten(-2).to(x.dtype))
