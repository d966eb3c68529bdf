"""What the models compute on the CPU in other ways than PyTorch's own, because these cost less."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from adanorm.norms.backends import MISSING


def usable(x: Tensor) -> bool:
    """Return whether a tensor is for them: float32 on the CPU, under plain autograd.

    Everything else, such as autocast, torch.func's transforms or tracing, is left to PyTorch.
    """
    return (
        x.device.type == "cpu"
        and x.dtype == torch.float32
        and type(x) in (Tensor, nn.Parameter)
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and not torch._C._are_functorch_transforms_active()
        and torch._C._len_torch_dispatch_stack() == 0
    )


def compiled(x: Tensor) -> bool:
    """Return whether a tensor is for those of them that Numba compiles: `usable`, and Numba is installed."""
    return MISSING["cpu"] is None and usable(x)
