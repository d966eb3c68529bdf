"""PowerNorm's arithmetic after its start: rows over a running size, with a running gradient through it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from adanorm.norms.standardized import as_mask
from adanorm.norms.statistics import affine, upcast


@dataclass
class RunningScale:
    """Code of gain * x/psi + bias with the gradient of Shen et al. 2020, algorithm 2.

    x is (B, ..., H), psi (H,); a gradient moves `projection`, their nu (H,). `square` is the mean square
    of the last call's rows.
    """

    rows: Tensor | None
    psi: Tensor
    projection: Tensor
    alpha: float
    square: Tensor | None = None

    def forward(self, x: Tensor, gain: Tensor, bias: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return z by a kernel, and what the gradient needs: 1/psi and the mean square."""
        from adanorm.norms.kernels import numba_running

        mask, inverse = as_mask(self.rows), self.psi.to(x.dtype).reciprocal()
        z, square = numba_running.scaled(x.reshape(-1, x.shape[-1]), gain * inverse, bias, mask)
        self.square = square / self._count(x)
        return z.view(x.shape), (inverse, self.square)

    def backward(
        self,
        dz: Tensor,
        x: Tensor,
        gain: Tensor,
        bias: Tensor,
        inverse: Tensor,
        square: Tensor,
    ) -> tuple[Tensor, ...]:
        """Return the gradients of x, gain and bias by a kernel."""
        from adanorm.norms.kernels import numba_running

        rows, dz = x.reshape(-1, x.shape[-1]), dz.reshape(-1, x.shape[-1])
        mask, slope = as_mask(self.rows), self.projection.to(x.dtype) * inverse.square()
        dx, (plain, counted, others) = numba_running.scaled_gradient(dz, rows, gain * inverse, slope, mask)
        self._move(square * inverse.square(), gain * inverse * counted / self._count(x))
        return dx.view(x.shape), (counted + others) * inverse, plain

    def eager(self, x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
        """Return z by PyTorch's operations."""
        broad = upcast(x)
        counted = x.new_ones(()).bool().expand(x.shape[:-1]) if self.rows is None else self.rows
        counted, dims = counted.unsqueeze(-1), tuple(range(x.dim() - 1))
        self.square = (broad.detach() * counted).square().sum(dims) / counted.sum().clamp(min=1)
        y = _Scale.apply(broad, self.psi.to(broad.dtype), counted, self)  # type: ignore[no-untyped-call]
        return affine(y.to(x.dtype), gain, bias)

    def _count(self, x: Tensor) -> Tensor | int:
        """Return how many rows count."""
        return x.shape[:-1].numel() if self.rows is None else self.rows.sum().clamp(min=1)

    @torch.no_grad()
    def _move(self, square: Tensor, product: Tensor) -> None:
        """Move nu by the means of y^2 and of dl/dy * y over the rows that count."""
        new, dtype = 1 - self.alpha, self.projection.dtype
        self.projection.mul_(1 - new * square.to(dtype)).add_(new * product.to(dtype))


class _Scale(torch.autograd.Function):
    """x/psi with the gradient of algorithm 2; a derivative of that takes nu as the constant that it is."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, psi: Tensor, counted: Tensor, code: RunningScale) -> Tensor:
        y = x / psi
        ctx.save_for_backward(y, psi, counted)
        ctx.code = code
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        y, psi, counted = ctx.saved_tensors
        dx = (grad - ctx.code.projection.to(y.dtype, copy=True) * y) / psi
        with torch.no_grad():
            dims, count = tuple(range(y.dim() - 1)), counted.sum().clamp(min=1)
            square = (y * counted).square().sum(dims) / count
            ctx.code._move(square, (grad * y * counted).sum(dims) / count)
        return dx, None, None, None
