"""Theorem 1 of Xu et al. 2019 along training: the gradient before and after every norm.

x goes into a norm and z comes out of it, rows (N, H); y is x standardized over H and sigma its
divisor; g = dl/dy, of mean gbar and variance D_g over H. l is the update's mean loss in nats.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from adanorm.analysis.step import Step, Values
from adanorm.analysis.watching import Call, watched
from adanorm.norms import AdaNorm, LayerNorm
from adanorm.norms.family import ClosedFormNorm


def observe(step: Step, *, tolerance: float) -> Values:
    """Return for each site what statistics have, averaged over rows, and where theorem 1 speaks how it fares.

    Rows that no gradient reaches, padding among them, do not count. The tolerance is relative to
    what the theorem's terms are made of: the root mean square of g over sigma, D_g over sigma^2.
    """
    sums: dict[str, dict[str, Tensor]] = {}

    def seen(site: str, call: Call) -> None:
        if call.dz is None or call.dx is None:
            return
        for name, total in statistics(call, tolerance).items():
            found = sums.setdefault(site, {})
            found[name] = found[name] + total if name in found else total

    with watched(step.sites, seen, gradients=True):
        units = step.update().units
    # The loop's gradients are of the sum over units until it divides them.
    power = {"mean_before": 1, "mean_after": 1, "variance_before": 2, "variance_after": 2}
    found = {site: sums[site] for site in step.sites if site in sums and sums[site]["rows"] > 0}
    return {
        site: {
            name: (total / totals["rows"]).item() / units ** power.get(name, 0)
            for name, total in totals.items()
            if name != "rows"
        }
        for site, totals in found.items()
    }


def statistics(call: Call, tolerance: float) -> dict[str, Tensor]:
    """Return sums over the rows that a gradient reaches, and `rows`, their number.

    `mean_before`, `variance_before`: of dl/dx over H, the mean by its absolute value;
    `mean_after`, `variance_after`: of dl/dz; where theorem 1 speaks also `mean_holds`,
    `variance_holds`: 1 for a row within what it allows; `ratio`: variance * sigma^2 / D_g.
    """
    assert call.dx is not None, "asked once it is known"
    assert call.dz is not None, "known before dx"
    x, dx, dz = (_rows(t) for t in (call.x, call.dx, call.dz))
    reached = dz.any(-1)
    if not reached.all():
        x, dx, dz = x[reached], dx[reached], dz[reached]
    (variance, mean), (variance_after, mean_after) = _moments(dx), _moments(dz)
    found = {
        "mean_before": mean.abs(),
        "variance_before": variance,
        "mean_after": mean_after.abs(),
        "variance_after": variance_after,
    }
    if case := _case(call.norm, x, dz):
        D, gbar = (variance_after, mean_after) if case.g is dz else _moments(case.g)
        allowed = D / case.sigma.square()
        expected = gbar / case.sigma if case.mean_detached else torch.zeros_like(gbar)
        unit = (D + gbar.square()).sqrt() / case.sigma
        excess = variance - allowed
        found |= {
            "mean_holds": ((mean - expected).abs() <= tolerance * unit).float(),
            "variance_holds": ((excess.abs() if case.equality else excess) <= tolerance * allowed).float(),
            "ratio": variance / allowed.clamp(min=torch.finfo(allowed.dtype).tiny),
        }
    return {name: total.double().sum() for name, total in found.items()} | {"rows": reached.sum()}


class _Case(NamedTuple):
    """What theorem 1 says of a norm: g (N, H), sigma (N,), and which of its four cases it is."""

    g: Tensor
    sigma: Tensor
    mean_detached: bool
    equality: bool  # of the variance, else a bound


def _case(norm: nn.Module, x: Tensor, dz: Tensor) -> _Case | None:
    """Return the theorem's case of a norm: one of the family, or LayerNorm with g = gain * dl/dz."""
    if isinstance(norm, LayerNorm) and len(norm.normalized_shape) == 1:
        sigma = (_moments(x)[0] + norm.eps).sqrt()
        gain = norm.weight
        return _Case(dz if gain is None else dz * gain.detach(), sigma, mean_detached=False, equality=False)
    if not isinstance(norm, ClosedFormNorm) or getattr(norm, "phi_gradient", False):
        return None
    settings = norm.settings
    variance, mean = _moments(x)
    if settings["numerics"] == "paper":
        sigma = (variance + settings["eps"]).sqrt()
    else:
        features = x.shape[-1]
        sigma = (variance * (features / (features - 1))).sqrt() + settings["eps"]
    g = dz
    if isinstance(norm, AdaNorm):
        y = (x - mean[:, None]) / sigma[:, None]
        C = getattr(norm, "C", None)  # a learned one
        scale = settings["C"] if C is None else C.detach()
        g = scale * (1 - settings["k"] * y) * dz
    detached = bool(settings.get("detach_variance"))
    return _Case(g, sigma, bool(settings.get("detach_mean")), equality=detached)


def _rows(tensor: Tensor) -> Tensor:
    wide = tensor if tensor.dtype == torch.float64 else tensor.float()
    return wide.reshape(-1, tensor.shape[-1])


def _moments(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the biased variance and the mean (N,) of rows (N, H)."""
    return torch.var_mean(rows, -1, correction=0)
