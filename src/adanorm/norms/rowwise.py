"""Norms of one row of features that are no members of the paper's family: (..., H) to (..., H)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from adanorm.norms import backends
from adanorm.norms.backends import Backend
from adanorm.norms.base import Norm
from adanorm.norms.functional import closed_form
from adanorm.norms.fused import computed
from adanorm.norms.statistics import Affine, affine, check_eps, upcast


class RmsNorm(Affine):
    """Return gain * x/sqrt(mean(x^2) + eps) (Zhang & Sennrich 2019, equation 4).

    `eps_at` root adds eps to the mean square, as most code does; outside adds it to the root, as
    theirs. With `zero_centered` the gain is 1 + g, and g is learned from 0, as in Gemma and Qwen3-Next:
    weight decay then draws it to 1. Raises ValueError for any other choice.
    """

    def __init__(
        self,
        dim: int,
        *,
        eps: float = 1e-5,
        eps_at: str = "root",
        gain: bool = True,
        zero_centered: bool = False,
        backend: Backend = "auto",
    ) -> None:
        super().__init__(dim, gain=gain, bias=False, zero_centered=zero_centered)
        if eps_at not in ("root", "outside"):
            raise ValueError(f"eps_at={eps_at!r}: choose root or outside")
        self._divide(_Scaled(eps_at, dim, eps, backend))

    def _divide(self, code: _Scaled) -> None:
        """Divide rows by the size that the code computes."""
        check_eps(code.eps)
        backends.check(code.backend)
        self.code, self.backend = code, code.backend
        self.kernels = ("cpu", "cuda") if code.is_closed_form(self.dim) else ("cpu",)

    def forward(self, x: Tensor) -> Tensor:
        """Return z (..., H)."""
        self.check_features(x)
        gain = self.weight if self.gain_less_one is None else 1 + upcast(self.gain_less_one)
        z = computed(self.code, self.backend, x, gain)
        return (
            z if self.gain_less_one is None else z.to(torch.promote_types(x.dtype, self.gain_less_one.dtype))
        )


class SimpleRmsNorm(RmsNorm):
    """Return x/sqrt(mean(x^2) + eps), without a gain: RMSNorm as x-transformers' SimpleRMSNorm has it.

    With `size` length, x/max(||x||, eps): rows of length 1, L2 normalization, as nGPT's (Loshchilov et
    al. 2024). Raises ValueError for another size.
    """

    def __init__(self, dim: int, *, size: str = "rms", eps: float = 1e-5, backend: Backend = "auto") -> None:
        super().__init__(dim, eps=eps, gain=False, backend=backend)
        if size not in ("rms", "length"):
            raise ValueError(f"size={size!r}: choose rms or length")
        self._divide(_Scaled("root" if size == "rms" else "length", dim, eps, backend))


class PreAffineRmsNorm(RmsNorm):
    """Return gain * u/sqrt(mean(u^2) + eps) with u = scale * x, scale and gain (H,) learned from 1.

    Qiu et al. 2026, arXiv 2601.22966: what outliers among the features do can be learned in the scale.
    """

    def __init__(self, dim: int, *, eps: float = 1e-5, backend: Backend = "auto") -> None:
        super().__init__(dim, eps=eps, backend=backend)
        self.scale = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        """Return z (..., H)."""
        self.check_features(x)
        return super().forward(x * self.scale)


class PartialRmsNorm(RmsNorm):
    """Return RMSNorm's z with the mean square of the first p * H features alone (at least one).

    Zhang & Sennrich 2019, section 4.1; they find 6.25 % enough. Raises ValueError unless 0 < p <= 1.
    """

    def __init__(
        self,
        dim: int,
        *,
        p: float = 0.0625,
        eps: float = 1e-5,
        eps_at: str = "root",
        gain: bool = True,
        backend: Backend = "auto",
    ) -> None:
        super().__init__(dim, eps=eps, eps_at=eps_at, gain=gain, backend=backend)
        if not 0 < p <= 1:
            raise ValueError(f"p={p}: must be above 0 and at most 1")
        self._divide(_Scaled(eps_at, math.ceil(p * dim), eps, backend))


class ScaleNorm(Affine):
    """Return g * x/max(||x||, eps) with one gain g for all features, at first sqrt(H).

    Nguyen & Salazar 2019, equation 5.
    """

    kernels = ("cpu",)

    def __init__(self, dim: int, *, eps: float = 1e-5, backend: Backend = "auto") -> None:
        super().__init__(dim, gain=False, bias=False)
        check_eps(eps)
        backends.check(backend)
        self.gain, self.backend = nn.Parameter(torch.tensor(math.sqrt(dim))), backend
        self.code = _Scaled("length", dim, eps, backend)

    def forward(self, x: Tensor) -> Tensor:
        """Return z (..., H)."""
        self.check_features(x)
        gain = self.gain.expand(x.shape[-1])
        return computed(self.code, self.backend, x, gain).to(x.dtype)


@dataclass(frozen=True)
class _Scaled:
    """Code of gain * x/size (..., H), the size that of the first `counted` features; gain (H,) or None.

    root: the root of their mean square plus eps. outside: their root mean square, plus eps. length:
    the root of their squares' sum, at least eps.
    """

    size: str
    counted: int
    eps: float
    backend: Backend

    def is_closed_form(self, features: int) -> bool:
        """Return whether it is the family's closed form, for which there are kernels on CUDA."""
        return self.size == "root" and self.counted == features

    def forward(self, x: Tensor, gain: Tensor | None) -> tuple[Tensor, tuple[Tensor, ...]]:
        from adanorm.norms.kernels import numba_affine

        z, squares = numba_affine.scaled(x, gain, size=self.size, counted=self.counted, eps=self.eps)
        return z, (squares,)

    def backward(
        self, dz: Tensor, x: Tensor, gain: Tensor | None, squares: Tensor
    ) -> tuple[Tensor | None, ...]:
        from adanorm.norms.kernels import numba_affine

        dx, dgain = numba_affine.scaled_gradient(
            dz, x, gain, squares, size=self.size, counted=self.counted, eps=self.eps
        )
        return dx, None if gain is None else dgain

    def eager(self, x: Tensor, gain: Tensor | None) -> Tensor:
        if self.is_closed_form(x.shape[-1]):
            y = closed_form(x, centered=False, eps=self.eps, backend=self.backend)
            return affine(y.to(x.dtype), gain, None)
        broad = upcast(x)
        # The norm's own gradient at 0 is 0; a root's would not be finite.
        length = torch.linalg.vector_norm(broad[..., : self.counted], dim=-1, keepdim=True)
        root = length / math.sqrt(self.counted)
        if self.size == "root":
            size = (root.square() + self.eps).sqrt()
        else:
            size = root + self.eps if self.size == "outside" else length.clamp(min=self.eps)
        return affine((broad / size).to(x.dtype), gain, None)


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
