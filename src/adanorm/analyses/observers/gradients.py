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
    for values in means.values():  # from the summed loss to the mean loss
        for side in ("before", "after"):
            values[f"mean_{side}"] /= units
            values[f"variance_{side}"] /= units**2
    return means


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
    theorem = _theorem_case(call.norm, x, dz)
    if theorem is None:
        return numbers
    g, sigma, member = theorem
    gbar, D = (mean_after, variance_after) if g is dz else row_moments(g)
    allowed = D / sigma.square()
    unit = (D + gbar.square()).sqrt() / sigma
    deviation_of_mean = mean - gbar / sigma if member.detach_mean else mean
    excess = variance - allowed
    if member.detach_variance:
        excess = excess.abs()
    numbers["mean_holds"] = (deviation_of_mean.abs() <= tolerance * unit).float()
    numbers["variance_holds"] = (excess <= tolerance * allowed).float()
    numbers["ratio"] = variance / allowed.clamp(min=torch.finfo(allowed.dtype).tiny)
    return numbers


def _theorem_case(norm: nn.Module, x: Tensor, dz: Tensor) -> tuple[Tensor, Tensor, Member] | None:
    """Return g (N, H), sigma (N,) and the member of a norm; None if theorem 1 is silent on it.

    It speaks of the family, and of LayerNorm with g = gain * dl/dz.
    """
    if not isinstance(norm, LayerNorm | ClosedFormNorm) or len(norm.normalized_shape) > 1:
        return None
    if getattr(norm, "phi_gradient", False):
        return None
    member = norm.member
    mean, variance = row_moments(x)
    sigma = deviation(
        variance,
        x.shape[-1],
        member,
    )
    g = dz
    if isinstance(norm, LayerNorm):
        g = dz if norm.learned_gain is None else dz * norm.learned_gain.detach()
    elif isinstance(norm, AdaNorm):
        scale = member.C if norm.C is None else norm.C.detach()
        y = (x - mean[:, None]).div_(sigma[:, None])
        g = y.mul_(-scale * member.k).add_(scale).mul_(dz)
    return g, sigma, member
