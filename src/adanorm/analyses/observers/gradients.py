"""Theorem 1 of Xu et al. 2019 while a run trains: the gradient before and after every norm.

A norm maps x to z, both rows (N, H). y is x standardized over H, with divisor sigma. g = dl/dy has
mean gbar and variance D_g over H. l is the update's mean loss in nats.
"""

import torch
from torch import Tensor, nn

from adanorm.analyses.step import Call, Step, Values, row_means, row_moments
from adanorm.norms import AdaNorm, LayerNorm
from adanorm.norms.closed_form import Member, deviation
from adanorm.norms.family import ClosedFormNorm


def observe(step: Step, *, tolerance: float) -> Values:
    """Return the means of `statistics` over rows, by site.

    Rows that no gradient reaches, such as padding, do not count. The tolerance is relative: to the
    root mean square of g over sigma for the mean, and to D_g / sigma^2 for the variance.
    """
    units, means = row_means(step, lambda call: statistics(call, tolerance))
    power = {"mean_before": 1, "mean_after": 1, "variance_before": 2, "variance_after": 2}
    return {
        site: {name: value / units ** power.get(name, 0) for name, value in values.items()}
        for site, values in means.items()
    }


def statistics(call: Call, tolerance: float) -> dict[str, Tensor]:
    """Return numbers (N,), one for each row that a gradient reaches.

    `mean_before`, `variance_before`: absolute mean and variance of dl/dx over H; `mean_after`,
    `variance_after`: the same of dl/dz. Where theorem 1 applies also `mean_holds`,
    `variance_holds`: 1 for a row within what the theorem allows; `ratio`: variance * sigma^2 / D_g,
    with the variance of dl/dx.
    """
    x, _, dx, dz = call.rows()
    (mean, variance), (mean_after, variance_after) = row_moments(dx), row_moments(dz)
    numbers = {"mean_before": mean.abs(), "variance_before": variance}
    numbers |= {"mean_after": mean_after.abs(), "variance_after": variance_after}
    if theorem := _theorem_case(call.norm, x, dz):
        g, sigma, member = theorem
        gbar, D = (mean_after, variance_after) if g is dz else row_moments(g)
        allowed, unit = D / sigma.square(), (D + gbar.square()).sqrt() / sigma
        expected = gbar / sigma if member.detach_mean else torch.zeros_like(gbar)
        excess = variance - allowed
        is_bounded = (excess.abs() if member.detach_variance else excess) <= tolerance * allowed
        numbers |= {
            "mean_holds": ((mean - expected).abs() <= tolerance * unit).float(),
            "variance_holds": is_bounded.float(),
            "ratio": variance / allowed.clamp(min=torch.finfo(allowed.dtype).tiny),
        }
    return numbers


def _theorem_case(norm: nn.Module, x: Tensor, dz: Tensor) -> tuple[Tensor, Tensor, Member] | None:
    """Return g (N, H), sigma (N,) and the member of a norm; None if theorem 1 does not cover the norm."""
    if not isinstance(norm, LayerNorm | ClosedFormNorm) or len(norm.normalized_shape) > 1:
        return None
    if getattr(norm, "phi_gradient", False):
        return None
    member = norm.member
    mean, variance = row_moments(x)
    sigma = deviation(variance, x.shape[-1], member)
    g = dz
    if isinstance(norm, LayerNorm):
        g = dz if norm.learned_gain is None else dz * norm.learned_gain.detach()
    elif isinstance(norm, AdaNorm):
        scale = member.C if norm.C is None else norm.C.detach()
        y = (x - mean[:, None]).div_(sigma[:, None])
        g = y.mul_(-scale * member.k).add_(scale).mul_(dz)
    return g, sigma, member
