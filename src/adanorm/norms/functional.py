"""The paper's family of norms as one closed form, forward and backward.

H features; x, y, z and their gradients are (..., H).
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

Numerics = Literal["paper", "released"]


def closed_form(
    x: Tensor,
    *,
    k: float = 0.0,
    C: float = 1.0,
    detach_mean: bool = False,
    detach_variance: bool = False,
    eps: float = 1e-5,
    numerics: Numerics = "paper",
) -> Tensor:
    """Return C * (1 - k*y) * y with y = (x - mean)/std over the last axis; (..., H) as x.

    The factor C * (1 - k*y) carries no gradient, nor does a detached statistic (Xu et al. 2019,
    sections 3 and 4). `paper` numerics: biased variance, eps inside the root, as torch's
    LayerNorm; `released`: unbiased standard deviation, eps added to it, as the authors' code.
    With g = C * (1 - k*y) * dl/dz the gradient is

        dl/dx = (1/std) * (g - a * mean(g) - b * y * mean(g * y)),

    a, b = 0 where the mean, the variance is detached and 1 elsewhere. Half precision is computed
    and, under autocast, returned in float32, as torch's LayerNorm does. Differentiable once.
    """
    if torch.is_autocast_enabled(x.device.type) and x.is_floating_point() and x.dtype != torch.float64:
        x = x.float()
    z: Tensor = _ClosedForm.apply(x, k, C, detach_mean, detach_variance, eps, numerics)  # type: ignore[no-untyped-call]
    return z


class _ClosedForm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        k: float,
        C: float,
        detach_mean: bool,
        detach_variance: bool,
        eps: float,
        numerics: Numerics,
    ) -> Tensor:
        wide = x if x.dtype == torch.float64 else x.float()
        y, inverse_std, variance_share = _standardize(wide, eps, numerics)
        ctx.save_for_backward(y, inverse_std, variance_share)
        ctx.settings = (k, C, detach_mean, detach_variance, x.dtype)
        if k == 0.0:
            return (y if C == 1.0 else C * y).to(x.dtype)
        return torch.addcmul(C * y, y, y, value=-C * k).to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
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
        return (dx * inverse_std).to(dtype), None, None, None, None, None, None


def _standardize(x: Tensor, eps: float, numerics: Numerics) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return y (..., H), the inverse standard deviation (..., 1) and the variance term's factor.

    The factor is None where it is 1. With released numerics y = c/(s + eps) for c = x - mean and
    s the unbiased std; ds/dx = c/((H-1) s) then brings the factor H/(H-1) * (s + eps)/s.
    """
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
