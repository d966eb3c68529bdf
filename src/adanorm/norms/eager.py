"""The closed form in PyTorch's operations: every device's way, and what the kernels are held against.

Letters and settings as in norms.functional; a statistic is (..., 1).
"""

from __future__ import annotations

import torch
from torch import Tensor

from adanorm.norms.statistics import upcast


def forward(
    x: Tensor,
    k: float,
    C: float,
    detach_mean: bool,
    detach_variance: bool,
    eps: float,
    released: bool,
    centered: bool,
) -> tuple[Tensor, Tensor]:
    """Return z (..., H) in x's type and 1/std (..., 1)."""
    y, inverse_std, _ = _standardize(upcast(x), eps, released, centered)
    if k == 0.0:
        return (y if C == 1.0 else C * y).to(x.dtype), inverse_std
    return torch.addcmul(C * y, y, y, value=-C * k).to(x.dtype), inverse_std


def backward(
    grad: Tensor,
    x: Tensor | None,
    inverse_std: Tensor,
    k: float,
    C: float,
    detach_mean: bool,
    detach_variance: bool,
    eps: float,
    released: bool,
    centered: bool,
) -> Tensor:
    """Return dl/dx (..., H) in the type of grad, dl/dz; x is None where the gradient does not need it."""
    g = grad.to(inverse_std.dtype)
    if x is None:
        return ((g if C == 1.0 else C * g) * inverse_std).to(grad.dtype)
    # Again: kept, y would take as much memory as x does.
    y, _, variance_share = _standardize(upcast(x), eps, released, centered)
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
    return (dx * inverse_std).to(grad.dtype)


def _standardize(
    x: Tensor, eps: float, released: bool, is_centered: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return y (..., H), the inverse standard deviation (..., 1) and the variance term's factor.

    The factor is None where it is 1. With released numerics y = c/(s + eps) for c = x - mean and
    s the unbiased std; ds/dx = c/((H-1) s) then brings the factor H/(H-1) * (s + eps)/s.
    """
    if not is_centered:
        mean_square = torch.linalg.vecdot(x, x).unsqueeze(-1) / x.shape[-1]
        inverse_std = (mean_square + eps).rsqrt()
        return x * inverse_std, inverse_std, None
    if not released:
        y, _, inverse_std = torch.native_layer_norm(x, [x.shape[-1]], None, None, eps)
        return y, inverse_std, None
    features = x.shape[-1]
    centered = x - x.mean(-1, keepdim=True)
    std = (centered.square().sum(-1, keepdim=True) / (features - 1)).sqrt()
    inverse_std = 1 / (std + eps)
    # A constant row has y = 0 and no variance term; its 0/0 must not reach the gradient.
    share = torch.where(std > 0, features / (features - 1) * (std + eps) / std, 0.0)
    return centered * inverse_std, inverse_std, share
