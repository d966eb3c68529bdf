"""Hooks on the norms of a model for the length of an update: what goes in and out, and its gradients."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from adanorm.analyses.step import Step, Values
from adanorm.norms.base import upcast


@dataclass
class Call:
    """One call of a norm: x and z (..., H), and the loss's gradients dx and dz once they are there."""

    norm: nn.Module
    x: Tensor
    z: Tensor | None = None
    dx: Tensor | None = None
    dz: Tensor | None = None
    counted: Tensor | None = None  # (...): the rows that a norm over several rows was told to count

    def rows(self) -> list[Tensor]:
        """Return x, z, dx and dz in float32 at least, as rows (N, H): those that a gradient reaches."""
        known = [tensor for tensor in (self.x, self.z, self.dx, self.dz) if tensor is not None]
        assert len(known) == 4, "asked once the gradients are known"
        x, z, dx, dz = (upcast(tensor).reshape(-1, tensor.shape[-1]) for tensor in known)
        reached = (dz.amax(-1) != 0) | (dz.amin(-1) != 0)  # ten times as fast as any()
        return [x, z, dx, dz] if reached.all() else [rows[reached] for rows in (x, z, dx, dz)]


def row_moments(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and the biased variance (N,) of rows (N, H)."""
    # torch.var_mean takes twenty times as long on a CPU.
    mean = rows.mean(-1)
    centered = rows - mean[:, None]
    return mean, torch.linalg.vecdot(centered, centered) / rows.shape[-1]


OnCall = Callable[[str, Call], None]


@contextmanager
def record_norm_calls(sites: Mapping[str, nn.Module], seen: OnCall, *, gradients: bool) -> Iterator[None]:
    """Hand every call of the norms to `seen(site, call)` during a block, whose numbers stay what they are.

    With `gradients` when its gradients are known, in the backward pass, else when z is. dx is what
    comes through the norm alone: a residual's gradient of the same x is none of it.
    """
    with ExitStack() as hooks:
        for site, norm in sites.items():
            for hook in _hooks(site, norm, seen, gradients=gradients):
                hooks.enter_context(hook)
        yield


def _hooks(site: str, norm: nn.Module, seen: OnCall, *, gradients: bool) -> tuple[Any, Any]:
    """Register what hands on the calls of one norm, and return the hooks."""
    calls: list[Call] = []

    def before(norm: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
        x = arguments[0]
        call = Call(norm, x.detach(), counted=arguments[1] if len(arguments) > 1 else None)
        calls.append(call)
        if not gradients or not x.requires_grad:
            return None

        def arrived(gradient: Tensor) -> None:
            call.dx = gradient.detach()
            seen(site, call)

        alias = x.view_as(x)  # a name of its own for x as the norm's input
        alias.register_hook(arrived)
        return (alias, *arguments[1:])

    def after(norm: nn.Module, arguments: tuple[Any, ...], z: Tensor) -> Tensor | None:
        call = calls.pop()
        call.z = z.detach()
        if not gradients:
            seen(site, call)
        if not (gradients and z.requires_grad):
            return None
        if z is arguments[0]:
            z = z.view_as(z)  # w/o Norm: so that its hook is called before x's
        z.register_hook(lambda gradient: setattr(call, "dz", gradient.detach()))  # type: ignore[no-untyped-call]
        return z

    return norm.register_forward_pre_hook(before), norm.register_forward_hook(after)


def row_means(step: Step, measure: Callable[[Call], dict[str, Tensor]]) -> tuple[int, Values]:
    """Make the step's update and return its units and, for each site, means over rows.

    `measure` returns numbers (N,) of a call's N rows; the mean is over all calls of the update. A
    site that no gradient reaches is left out.
    """
    sums: dict[str, dict[str, Any]] = {site: {} for site in step.sites}
    counts = dict.fromkeys(step.sites, 0)

    def seen(site: str, call: Call) -> None:
        if call.dz is None:
            return
        for name, numbers in measure(call).items():
            sums[site][name] = sums[site].get(name, 0) + numbers.double().sum()
        counts[site] += len(numbers)

    with record_norm_calls(step.sites, seen, gradients=True):
        units = step.update().units
    reached = [(site, count) for site, count in counts.items() if count]
    return units, {s: {name: total.item() / n for name, total in sums[s].items()} for s, n in reached}
