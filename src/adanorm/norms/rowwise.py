"""Norms of one row of features that are no members of the paper's family: (..., H) to (..., H)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from adanorm.norms import backends
from adanorm.norms.backends import Backend
from adanorm.norms.base import Norm
from adanorm.norms.functional import closed_form
from adanorm.norms.statistics import Affine, check_eps, wide


class RmsNorm(Affine):
    """Return gain * x/sqrt(mean(x^2) + eps) (Zhang & Sennrich 2019, equation 4).

    `eps_at` root adds eps to the mean square, as most code does: the closed form of a row that is not
    centered, and in its backends. outside adds it to the root, as theirs: PyTorch's operations.
    Raises ValueError for any other choice.
    """

    def __init__(
        self,
        dim: int,
        *,
        eps: float = 1e-5,
        eps_at: str = "root",
        gain: bool = True,
        backend: Backend = "auto",
    ) -> None:
        super().__init__(dim, gain=gain, bias=False)
        check_eps(eps)
        backends.check(backend)
        if eps_at not in ("root", "outside"):
            raise ValueError(f"eps_at={eps_at!r}: choose root or outside")
        self.eps, self.eps_at, self.counted, self.backend = eps, eps_at, dim, backend

    def forward(self, x: Tensor) -> Tensor:
        """Return z (..., H)."""
        self.check_features(x)
        if self.eps_at == "root" and self.counted == self.dim:
            y = closed_form(x, centered=False, eps=self.eps, backend=self.backend)
            return self.affine(y.to(x.dtype))
        broad = wide(x)
        # The norm's own gradient at 0 is 0; a root's would not be finite.
        root = torch.linalg.vector_norm(broad[..., : self.counted], dim=-1, keepdim=True)
        root = root / math.sqrt(self.counted)
        size = (root.square() + self.eps).sqrt() if self.eps_at == "root" else root + self.eps
        return self.affine((broad / size).to(x.dtype))


class PartialRmsNorm(RmsNorm):
    """Return RMSNorm's z with the mean square of the first p * H features alone (at least one).

    Zhang & Sennrich 2019, section 4.1; they find 6.25 % enough. Raises ValueError unless 0 < p <= 1.
    """

    def __init__(
        self, dim: int, *, p: float = 0.0625, eps: float = 1e-5, eps_at: str = "root", gain: bool = True
    ) -> None:
        super().__init__(dim, eps=eps, eps_at=eps_at, gain=gain)
        if not 0 < p <= 1:
            raise ValueError(f"p={p}: must be above 0 and at most 1")
        self.counted = math.ceil(p * dim)


class ScaleNorm(Norm):
    """Return g * x/max(||x||, eps) with one gain g for all features, at first sqrt(H).

    Nguyen & Salazar 2019, equation 5.
    """

    def __init__(self, dim: int, *, eps: float = 1e-5) -> None:
        super().__init__()
        check_eps(eps)
        self.eps = eps
        self.gain = nn.Parameter(torch.tensor(math.sqrt(dim)))

    def forward(self, x: Tensor) -> Tensor:
        """Return z (..., H)."""
        broad = wide(x)
        length = torch.linalg.vector_norm(broad, dim=-1, keepdim=True)
        z: Tensor = self.gain.to(broad.dtype) * broad / length.clamp(min=self.eps)
        return z.to(x.dtype)


class DynamicTanh(Affine):
    """Return gain * tanh(a x) + bias with one learned a: no statistics at all (DyT, Zhu et al. 2025).

    a starts at `alpha`, 0.5 as theirs outside large language models. Raises ValueError unless it is
    above 0.
    """

    def __init__(self, dim: int, *, alpha: float = 0.5) -> None:
        super().__init__(dim, gain=True, bias=True)
        if not 0 < alpha < float("inf"):
            raise ValueError(f"alpha={alpha}: must be above 0 and finite")
        self.alpha = nn.Parameter(torch.tensor(float(alpha)))

    def forward(self, x: Tensor) -> Tensor:
        """Return z (..., H)."""
        self.check_features(x)
        z: Tensor = self.affine(torch.tanh(self.alpha * x)).to(x.dtype)
        return z


class WeightNorm(Norm):
    """Return x itself: the norm is in the weights of the layer before, v scaled to length g a unit.

    Salimans & Kingma 2016, equation 2: w = g v/||v||, g and v learned, at first as the layer was
    drawn.
    """

    lives_in_layer = True

    def __init__(self, dim: int) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        """Return x, (..., H)."""
        return x

    def attach(self, layer: nn.Module) -> None:
        """Reparametrize the weights of the layer whose output reaches this site, a unit a row."""
        nn.utils.parametrizations.weight_norm(layer, dim=0)
