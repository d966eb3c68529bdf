"""Norms of a row whose scale depends on the row itself, AdaNorm's heirs: (..., H) to (..., H)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adanorm.norms import backends
from adanorm.norms.backends import Backend
from adanorm.norms.fused import computed
from adanorm.norms.rowwise import RmsNorm
from adanorm.norms.statistics import Affine, check_eps, upcast


class SeeDNorm(Affine):
    """Return (tanh(x . beta) * alpha + gain) * x/sqrt(mean(x^2) + eps) (Cai et al. 2025, arXiv 2510.22777).

    alpha, beta and gain (H,) are learned, at first 1, 0 and 1, as theirs in language models: RMSNorm,
    until beta is learned. `alpha` is alpha's first value; eps is assumed. One dot product, without
    the heads and the dropout that theirs has for images. Raises ValueError unless alpha is above 0.
    """

    kernels = ("cpu", "cuda")

    def __init__(self, dim: int, *, alpha: float = 1.0, eps: float = 1e-5, backend: Backend = "auto") -> None:
        super().__init__(dim, gain=True, bias=False)
        check_eps(eps)
        backends.check(backend)
        if not 0 < alpha < float("inf"):
            raise ValueError(f"alpha={alpha}: must be above 0 and finite")
        self.alpha, self.beta = nn.Parameter(torch.full((dim,), float(alpha))), nn.Parameter(torch.zeros(dim))
        self.code, self.backend = _Rescaled(eps), backend

    def forward(self, x: Tensor) -> Tensor:
        """Return z (..., H)."""
        self.check_features(x)
        learned = self.alpha, self.beta, self.weight
        return computed(self.code, self.backend, x, *learned, devices=self.kernels)


class GatedNorm(RmsNorm):
    """Return c * y * sigmoid(up silu(down y)) with y = RMSNorm(x), down (rank, H) and up (H, rank).

    Qiu et al. 2026, arXiv 2601.22966: a gate of low rank, 16, does what outliers among the features did.
    c is `scale`: 1, or 2 as a port has it, which is RMSNorm at first. down and up are drawn from a
    normal distribution of deviation .02, as in language models: assumed. Raises ValueError unless rank
    is a whole number above 0.
    """

    def __init__(
        self, dim: int, *, rank: int = 16, scale: float = 1.0, eps: float = 1e-5, backend: Backend = "auto"
    ) -> None:
        super().__init__(dim, eps=eps, backend=backend)
        if rank != int(rank) or rank < 1:
            raise ValueError(f"rank={rank}: must be a whole number above 0")
        if not 0 < scale < float("inf"):
            raise ValueError(f"scale={scale}: must be above 0 and finite")
        self.scale = scale
        random = _own_stream()
        self.down, self.up = _drawn(random, int(rank), dim), _drawn(random, dim, int(rank))

    def forward(self, x: Tensor) -> Tensor:
        """Return z (..., H)."""
        y = super().forward(x)
        gate = torch.sigmoid(F.linear(F.silu(F.linear(y, self.down)), self.up))
        return (y if self.scale == 1 else self.scale * y) * gate


def _own_stream() -> torch.Generator:
    """Return random numbers that follow from torch's seed and take none of torch's own.

    A model's layers then start with the weights that they have under any other norm.
    """
    with torch.random.fork_rng(devices=[]):
        seed = torch.randint(1 << 62, (), device="cpu")
        return torch.Generator("cpu").manual_seed(int(seed))


def _drawn(random: torch.Generator, *shape: int) -> nn.Parameter:
    """Return weights of deviation .02 on the default device, drawn on the CPU wherever that is."""
    return nn.Parameter(torch.empty(shape).copy_(0.02 * torch.randn(shape, generator=random, device="cpu")))


@dataclass(frozen=True)
class _Rescaled:
    """Code of (tanh(x . beta) * alpha + gain) * x/RMS(x), (..., H)."""

    eps: float

    def forward(
        self, x: Tensor, alpha: Tensor, beta: Tensor, gain: Tensor
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        z, found = _kernels(x.is_cuda).rescaled(x, alpha, beta, gain, self.eps)
        return z, (found,)

    def backward(
        self, dz: Tensor, x: Tensor, alpha: Tensor, beta: Tensor, gain: Tensor, found: Tensor
    ) -> tuple[Tensor, ...]:
        kernels = _kernels(x.is_cuda)
        found_gradients: tuple[Tensor, ...] = kernels.rescaled_gradient(
            dz, x, alpha, beta, gain, found, self.eps
        )
        return found_gradients

    def eager(self, x: Tensor, alpha: Tensor, beta: Tensor, gain: Tensor) -> Tensor:
        broad = upcast(x)
        inverse = (broad.square().mean(-1, keepdim=True) + self.eps).rsqrt()
        # A sum of products: autocast would round a product of matrices.
        scale = torch.tanh((broad * beta).sum(-1, keepdim=True))
        z = (scale * alpha + gain) * (broad * inverse)
        return z.to(torch.promote_types(x.dtype, gain.dtype))


@cache
def _kernels(is_cuda: bool) -> Any:
    """Return the module of kernels."""
    if is_cuda:
        from adanorm.norms.kernels import triton_seednorm

        return triton_seednorm
    from adanorm.norms.kernels import numba_seednorm

    return numba_seednorm
