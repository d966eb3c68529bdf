"""Norms whose statistics are taken over the positions of one example, such as an image's pixels.

x and the result are (B, positions ..., H). Of padded sequences the caller tells which rows count.
"""

from __future__ import annotations

from torch import Tensor

from adanorm.norms import backends
from adanorm.norms.backends import Backend
from adanorm.norms.fused import computed
from adanorm.norms.standardized import Standardized
from adanorm.norms.statistics import Affine, check_eps


class InstanceNorm(Affine):
    """Return (x - mean)/sqrt(variance + eps), each feature's statistics over an example's positions.

    Ulyanov et al. 2016; without gain and bias unless asked for. Raises ValueError for x (B, H),
    which has no positions.
    """

    depends_on_positions = True
    needs_positions = True

    kernels = ("cpu",)

    def __init__(
        self,
        dim: int,
        *,
        eps: float = 1e-5,
        gain: bool = False,
        bias: bool = False,
        backend: Backend = "auto",
    ) -> None:
        super().__init__(dim, gain=gain, bias=bias)
        check_eps(eps)
        backends.check(backend)
        self._eps, self.backend = eps, backend

    def forward(self, x: Tensor, rows: Tensor | None = None) -> Tensor:
        """Return z (B, ..., H); `rows` (B, ...) is true at the rows that statistics are taken over."""
        self.check_features(x)
        if x.dim() < 3:
            raise ValueError(f"InstanceNorm: x {tuple(x.shape)} has no positions between batch and features")
        return computed(Standardized(rows, self.dim, self._eps), self.backend, x, self.weight, self.bias)


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
        backend: Backend = "auto",
    ) -> None:
        super().__init__(dim, gain=gain, bias=bias)
        check_eps(eps)
        backends.check(backend)
        if groups < 1 or groups != int(groups) or dim % groups:
            raise ValueError(f"groups={groups}: must be a whole number that divides the {dim} features")
        self.groups, self.over_positions, self._eps = int(groups), over_positions, eps
        self.depends_on_positions, self.backend = over_positions, backend
        self.kernels = ("cpu",) if over_positions else ()

    def forward(self, x: Tensor, rows: Tensor | None = None) -> Tensor:
        """Return z (B, ..., H); `rows` (B, ...) is true at the rows that statistics are taken over."""
        self.check_features(x)
        if self.over_positions:
            code = Standardized(rows, self.groups, self._eps)
            return computed(code, self.backend, x, self.weight, self.bias)
        # Each position is an example of one.
        code = Standardized(None, self.groups, self._eps)
        return code.eager(x.reshape(-1, 1, self.dim), self.weight, self.bias).view(x.shape)
