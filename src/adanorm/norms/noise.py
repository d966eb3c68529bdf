"""Noise by a kernel as a differentiable function."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def noisy(z: Tensor, spread: Tensor, mean: Tensor, jitter: float, seed: int) -> Tensor:
    """Return s * z + m (..., H) for s ~ N(spread, jitter) and m ~ U(mean - jitter, mean + jitter)."""
    found: Tensor = _Noise.apply(z, spread, mean, jitter, seed)  # type: ignore[no-untyped-call]
    return found


class _Noise(torch.autograd.Function):
    """z (..., H) with noise by a kernel; the gradient draws the scale again, as cheap as to keep it."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, *noise: Any) -> Tensor:
        ctx.noise = noise
        return _drawn(z, noise)

    @staticmethod
    def backward(ctx: Any, dz: Tensor) -> tuple[Tensor | None, ...]:
        return _Gradient.apply(dz, *ctx.noise), None, None, None, None  # type: ignore[no-untyped-call]


class _Gradient(torch.autograd.Function):
    """dl/dz, whose own gradient is scaled in the same way."""

    @staticmethod
    def forward(ctx: Any, dz: Tensor, *noise: Any) -> Tensor:
        ctx.noise = noise
        return _drawn(dz, noise, shifts=False)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _Gradient.apply(grad, *ctx.noise), None, None, None, None  # type: ignore[no-untyped-call]


def _drawn(x: Tensor, noise: tuple[Any, ...], *, shifts: bool = True) -> Tensor:
    from adanorm.norms.kernels import numba_noise

    spread, mean, jitter, seed = noise
    return numba_noise.noisy(x, spread, mean, jitter=jitter, seed=seed, shifts=shifts)
