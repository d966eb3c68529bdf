"""Theorem 1 of Xu et al. 2019 along training: the gradient before and after every norm.

x goes into a norm and z comes out of it, rows (N, H); y is x standardized over H and sigma its
divisor; g = dl/dy, of mean gbar and variance D_g over H. l is the update's mean loss in nats.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from adanorm.analyses.hooks import Call, row_means, row_moments
from adanorm.analyses.step import Step, Values
from adanorm.norms import AdaNorm, LayerNorm
from adanorm.norms.closed_form import deviation
from adanorm.norms.family import ClosedFormNorm


def observe(step: Step, *, tolerance: float) -> Values:
    """Return for each site what statistics have, averaged over rows, and where theorem 1 speaks how it fares.

    Rows that no gradient reaches, padding among them, do not count. The tolerance is relative to
    what the theorem's terms are made of: the root mean square of g over sigma, D_g over sigma^2.
    """
    units, found = row_means(step, lambda call: statistics(call, tolerance))
    # The loop's gradients are of the sum over units until it divides them.
    power = {"mean_before": 1, "mean_after": 1, "variance_before": 2, "variance_after": 2}
    return {
        site: {name: value / units ** power.get(name, 0) for name, value in values.items()}
        for site, values in found.items()
    }


def statistics(call: Call, tolerance: float) -> dict[str, Tensor]:
    """Return numbers (N,), one a row that a gradient reaches.

    `mean_before`, `variance_before`: of dl/dx over H, the mean by its absolute value;
    `mean_after`, `variance_after`: of dl/dz; where theorem 1 speaks also `mean_holds`,
    `variance_holds`: 1 for a row within what it allows; `ratio`: variance * sigma^2 / D_g.
    """
    x, _, dx, dz = call.rows()
    (mean, variance), (mean_after, variance_after) = row_moments(dx), row_moments(dz)
    found = {
        "mean_before": mean.abs(),
        "variance_before": variance,
        "mean_after": mean_after.abs(),
        "variance_after": variance_after,
    }
    if case := _case(call.norm, x, dz):
        gbar, D = (mean_after, variance_after) if case.g is dz else row_moments(case.g)
        allowed = D / case.sigma.square()
        expected = gbar / case.sigma if case.mean_detached else torch.zeros_like(gbar)
        unit = (D + gbar.square()).sqrt() / case.sigma
        excess = variance - allowed
        found |= {
            "mean_holds": ((mean - expected).abs() <= tolerance * unit).float(),
            "variance_holds": ((excess.abs() if case.equality else excess) <= tolerance * allowed).float(),
            "ratio": variance / allowed.clamp(min=torch.finfo(allowed.dtype).tiny),
        }
    return found


class _Case(NamedTuple):
    """What theorem 1 says of a norm: g (N, H), sigma (N,), and which of its four cases it is."""

    g: Tensor
    sigma: Tensor
    mean_detached: bool
    equality: bool  # of the variance, else a bound


def _case(norm: nn.Module, x: Tensor, dz: Tensor) -> _Case | None:
    """Return the theorem's case of a norm: one of the family, or LayerNorm with g = gain * dl/dz."""
    if not isinstance(norm, LayerNorm | ClosedFormNorm) or len(norm.normalized_shape) > 1:
        return None
    if getattr(norm, "phi_gradient", False):
        return None
    member = norm.member
    mean, variance = row_moments(x)
    sigma = deviation(variance, x.shape[-1], member)
    g = dz
    if isinstance(norm, LayerNorm):
        gain = norm.learned_gain
        g = dz if gain is None else dz * gain.detach()
    elif isinstance(norm, AdaNorm):
        scale = member.C if norm.C is None else norm.C.detach()
        y = (x - mean[:, None]).div_(sigma[:, None])
        g = y.mul_(-scale * member.k).add_(scale).mul_(dz)
    return _Case(g, sigma, member.detach_mean, equality=member.detach_variance)
