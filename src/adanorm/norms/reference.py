"""The paper's definitions written out step by step, as autograd reads them: slow, and the reference."""

from __future__ import annotations

from torch import Tensor

from adanorm.norms.functional import Numerics


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
    if numerics == "paper":
        std = ((x - mean).square().mean(-1, keepdim=True) + eps).sqrt()
    else:
        std = x.std(-1, unbiased=True, keepdim=True) + eps
    y = shifted / (std.detach() if detach_variance else std)
    return C * (1 - k * y).detach() * y
