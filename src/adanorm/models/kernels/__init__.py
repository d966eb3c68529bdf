"""What the models compute on the CPU in other ways than PyTorch's own, because these cost less."""

from __future__ import annotations

import torch
from torch import Tensor

from adanorm.norms.backends import MISSING, is_plain


def usable(x: Tensor) -> bool:
    """Return whether a tensor is for them: float32 on the CPU, under plain autograd.

    Everything else, such as autocast, torch.func's transforms or tracing, is left to PyTorch.
    """
    is_autocast = torch.is_autocast_enabled("cpu")
    return x.device.type == "cpu" and x.dtype == torch.float32 and not is_autocast and is_plain(x)


def compiled(x: Tensor) -> bool:
    """Return whether a tensor is for those of them that Numba compiles: `usable`, and Numba is installed."""
    return MISSING["cpu"] is None and usable(x)
