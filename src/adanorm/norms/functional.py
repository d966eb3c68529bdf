"""The paper's family of norms as one closed form, forward and backward.

H features; x, y, z and their gradients are (..., H).
"""

from __future__ import annotations

import torch
from torch import Tensor

from adanorm.norms import operator
from adanorm.norms.backends import Backend, is_fused
from adanorm.norms.base import check_floating_point
from adanorm.norms.reference import Numerics


def closed_form(
    x: Tensor,
    *,
    k: float = 0.0,
    C: float = 1.0,
    detach_mean: bool = False,
    detach_variance: bool = False,
    eps: float = 1e-5,
    numerics: Numerics = "paper",
    centered: bool = True,
    backend: Backend = "auto",
) -> Tensor:
    """Return C * (1 - k*y) * y with y = (x - mean)/std over the last axis; (..., H) as x.

    The factor C * (1 - k*y) carries no gradient, nor does a detached statistic (Xu et al. 2019,
    sections 3 and 4). `paper` numerics: biased variance, eps inside the root, as torch's
    LayerNorm; `released`: unbiased standard deviation, eps added to it, as the authors' code.
    With g = C * (1 - k*y) * dl/dz the gradient is

        dl/dx = (1/std) * (g - a * mean(g) - b * y * mean(g * y)),

    a, b = 0 where the mean, the variance is detached and 1 elsewhere. Not `centered`, the mean is 0
    and std the root mean square, in the paper's numerics alone: RMSNorm. Half precision is computed
    and, under autocast, returned in float32, as torch's LayerNorm does. Derivatives
    of any order are those of the formula with its stops. Raises ValueError for another numerics of
    what is not centered, NotImplementedError for integers.

    `fused` kernels read and write once and keep x and one number a row for the gradient; `eager`
    is PyTorch's operations; `auto` is fused where it can be and x is not float64. In float32
    either is within 2e-6 * (1 + max |x|/std) of exact, as a share of a row's largest value: they
    sum in another order.
    """
    if not centered and numerics != "paper":
        raise ValueError(f"numerics={numerics!r}: what is not centered has no unbiased deviation")
    check_floating_point(x)
    device = x.device.type
    is_autocast = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
    if is_autocast and x.dtype != torch.float64:
        x = x.float()
    detach_mean |= not centered  # it is a constant
    settings = (k, C, detach_mean, detach_variance, eps, numerics == "released", centered)
    return operator.norm(x, *settings, fused=is_fused(backend, device, x.dtype))
