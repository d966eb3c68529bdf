"""The paper's definitions written out step by step, as autograd reads them: slow, and the reference."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

Numerics = Literal["paper", "released"]


def reference_formula(
    x: Tensor,
    *,
    k: float = 0.0,
    C: float = 1.0,
    detach_mean: bool = False,
    detach_variance: bool = False,
    eps: float = 1e-5,
    numerics: Numerics = "paper",
    centered: bool = True,
) -> Tensor:
    """Return C * (1 - k*y) * y, y = (x - mean)/std over the last axis, with stops as `detach`.

    x and the result are (..., H). Xu et al. 2019, sections 3.2 and 4; numerics as in closed_form.
    """
    mean = x.mean(-1, keepdim=True) if centered else x.new_zeros(())
    shifted = x - (mean.detach() if detach_mean else mean)
    squares = (x - mean).square()
    if numerics == "paper":
        std = (squares.mean(-1, keepdim=True) + eps).sqrt()
    else:
        variance = squares.sum(-1, keepdim=True) / (x.shape[-1] - 1)
        is_constant = variance == 0  # where the root has no derivative
        std = variance.masked_fill(is_constant, 1).sqrt().masked_fill(is_constant, 0) + eps
    y = shifted / (std.detach() if detach_variance else std)
    return C * (1 - k * y).detach() * y
