"""How often AdaNorm's phi is negative while a run trains, beside Chebyshev's bound.

Xu et al. 2019, section 4: phi(y) = C (1 - k y) is above 0 where y < 1/k, and at most k^2 of the
features have |y| >= 1/k, whatever their distribution. y is x standardized over the H features.
AdaNorm is derived from three constraints: phi is differentiable, its mean over features is C, and
|mean z| is bounded.
"""

import math

import torch
from torch import Tensor

from adanorm.analyses.step import Call, Step, Values, row_means, row_moments
from adanorm.norms import AdaNorm


def observe(step: Step, *, threshold: float) -> Values:
    """Return each site's shares of features beyond 1/k, or `threshold` for norms without k.

    `above`: y >= 1/k, where phi is not positive; `outside`: |y| >= 1/k; `bound`: Chebyshev's k^2;
    `largest`: a row's largest |y|, at most sqrt(H - 1); `output_mean`: the mean of z over features;
    `factor_mean`, for AdaNorm: the mean of phi. All are means over the rows that a gradient
    reaches.
    """
    return row_means(step, lambda call: shares(call, threshold))[1]


def shares(call: Call, threshold: float) -> dict[str, Tensor]:
    """Return the shares, the largest |y| and the means, each (N,) for N rows."""
    x, z, *_ = call.rows()
    limit = threshold
    means = {"output_mean": z.float().mean(-1)}
    mean, variance = row_moments(x)
    std = variance.sqrt()
    if isinstance(call.norm, AdaNorm):
        k = call.norm.member.k
        learned = call.norm.C
        limit = 1 / k if k else math.inf
        C = call.norm.member.C if learned is None else learned.detach()
        mean_y = (x - mean[:, None]).mean(-1) / std.clamp(min=torch.finfo(std.dtype).tiny)
        means["factor_mean"] = C * (1 - k * mean_y)
    high = mean + limit * std
    low = mean - limit * std
    largest = torch.maximum(x.amax(-1) - mean, mean - x.amin(-1))
    varies = std > 0  # a constant row has no y
    above = (x >= high[:, None]).float().mean(-1) * varies
    return {
        "above": above,
        "outside": above + (x <= low[:, None]).float().mean(-1) * varies,
        "bound": torch.full_like(mean, limit**-2),
        "largest": torch.where(varies, largest / std, 0),
        **means,
    }
