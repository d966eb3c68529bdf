"""The closed form in eager PyTorch: the reference of the fused kernels, and every device's way.

Letters as in norms.functional.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from adanorm.norms.statistics import upcast


class ClosedForm(torch.autograd.Function):
    """z of x, k, C, detach_mean, detach_variance, eps, numerics and centered: see functional.closed_form."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        k: float,
        C: float,
        detach_mean: bool,
        detach_variance: bool,
        eps: float,
        numerics: str,
        centered: bool,
    ) -> Tensor:
        """Return z (..., H), and keep y and 1/std (..., 1)."""
        y, inverse_std, variance_share = _standardize(upcast(x), eps, numerics, centered)
        ctx.save_for_backward(y, inverse_std, variance_share)
        ctx.settings = (k, C, detach_mean, detach_variance, x.dtype)
        if k == 0.0:
            return (y if C == 1.0 else C * y).to(x.dtype)
        return torch.addcmul(C * y, y, y, value=-C * k).to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Return dl/dx (..., H)."""
        y, inverse_std, variance_share = ctx.saved_tensors
        k, C, detach_mean, detach_variance, dtype = ctx.settings
        g = grad.to(y.dtype)
        if k != 0.0:
            g = torch.addcmul(C * g, g, y, value=-C * k)
        elif C != 1.0:
            g = C * g
        dx = g if detach_mean else g - g.mean(-1, keepdim=True)
        if not detach_variance:
            # The mean of g * y as a batched dot product: no product of the size of x is stored.
            projection = torch.linalg.vecdot(g, y).unsqueeze(-1) / y.shape[-1]
            if variance_share is not None:
                projection = projection * variance_share
            dx = torch.addcmul(dx, y, projection, value=-1)
        return (dx * inverse_std).to(dtype), *(None,) * 7


def _standardize(
    x: Tensor, eps: float, numerics: str, is_centered: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return y (..., H), the inverse standard deviation (..., 1) and the variance term's factor.

    The factor is None where it is 1. With released numerics y = c/(s + eps) for c = x - mean and
    s the unbiased std; ds/dx = c/((H-1) s) then brings the factor H/(H-1) * (s + eps)/s.
    """
    if not is_centered:
        mean_square = torch.linalg.vecdot(x, x).unsqueeze(-1) / x.shape[-1]
        inverse_std = (mean_square + eps).rsqrt()
        return x * inverse_std, inverse_std, None
    if numerics == "paper":
        y, _, inverse_std = torch.native_layer_norm(x, [x.shape[-1]], None, None, eps)
        return y, inverse_std, None
    features = x.shape[-1]
    centered = x - x.mean(-1, keepdim=True)
    std = (centered.square().sum(-1, keepdim=True) / (features - 1)).sqrt()
    inverse_std = 1 / (std + eps)
    # A constant row has y = 0 and no variance term; its 0/0 must not reach the gradient.
    share = torch.where(std > 0, features / (features - 1) * (std + eps) / std, 0.0)
    return centered * inverse_std, inverse_std, share
