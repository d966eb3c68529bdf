"""Norms of the suite in models of any library: `adanorm.swap(model, "adanorm")`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from adanorm.norms.base import Norm
from adanorm.norms.registry import NormChoice, NormFactory, norm_factory

KINDS = ("layernorm", "rmsnorm")  # what a class's name ends with, in any library
NAMES = {"weight", "bias"}
CLOSE = 1e-3  # relative, of what a module gives to what its formula gives: an eps may differ
# Where a norm keeps the module whose place it took: in its __dict__, in a tuple, where no state dict and no
# optimizer sees it, and a copy of the model can be restored as well.
ORIGINAL = "_adanorm_original"


@dataclass(frozen=True)
class Swapped:
    """The sites of a model that have another norm now, and why others that look like norms have not."""

    sites: tuple[str, ...]
    left: Mapping[str, str]


class WithAffine(Norm):
    """A norm with the gain and the bias (H,) of the one whose place it took, behind it."""

    def __init__(self, norm: Norm, weight: nn.Parameter | None, bias: nn.Parameter | None) -> None:
        super().__init__()
        self.norm, self.weight, self.bias = norm, weight, bias

    def forward(self, x: Tensor) -> Tensor:
        """Return gain * norm(x) + bias, (..., H)."""
        z: Tensor = self.norm(x)
        z = z if self.weight is None else z * self.weight
        return z if self.bias is None else z + self.bias


def swap(
    model: nn.Module,
    norm: str | type[nn.Module],
    *,
    where: str | Sequence[str] = "*",
    params: Mapping[str, Any] | None = None,
    keep: bool = False,
) -> Swapped:
    """Put a norm in the place of a model's LayerNorm and RMSNorm modules, and return at which sites.

    `norm` is a name of the suite or a class that takes the number of features; `params` are its
    settings, and `where` are globs over the names of modules. With `keep` the gains and biases that
    were there stay, as the same parameters, behind the norm or in place of its own. A module counts
    as a norm by what it computes: of a row, over its last axis; torch's over several axes are swapped for
    norms that take several. `restore` undoes it. Raises ValueError
    for an unknown norm or setting, where no site matches, or where none that does can be swapped.
    """
    globs = [where] if isinstance(where, str) else list(where)
    make = _factory(norm, params or {})
    norms = {
        name: module for name, module in model.named_modules(remove_duplicate=False) if _looks_like(module)
    }
    chosen = {name: module for name, module in norms.items() if any(fnmatchcase(name, g) for g in globs)}
    if not chosen:
        known = ", ".join(norms) or "none"
        raise ValueError(f"where={where!r}: no LayerNorm or RMSNorm there; the model's are {known}")
    axes = make.trial.takes_axes
    left = {name: reason for name, module in chosen.items() if (reason := _why_not(name, module, axes=axes))}
    if len(left) == len(chosen):
        first, reason = next(iter(left.items()))
        others = f"; none of {len(left) - 1} others can be swapped either" if len(left) > 1 else ""
        raise ValueError(f"{first}: {reason}{others}")
    made: dict[int, nn.Module] = {}  # a module at several sites stays one
    for name, module in chosen.items():
        if name not in left:
            if id(module) not in made:
                made[id(module)] = _in_place_of(module, make, name, keep=keep)
            model.set_submodule(name, made[id(module)])
    return Swapped(tuple(name for name in chosen if name not in left), left)


def restore(model: nn.Module) -> tuple[str, ...]:
    """Put back the norms that `swap` took out of a model, on the device it is on, and return at which sites.

    Raises ValueError where none was.
    """
    sites = {
        name: module.__dict__[ORIGINAL][0]
        for name, module in model.named_modules(remove_duplicate=False)
        if ORIGINAL in module.__dict__
    }
    if not sites:
        raise ValueError("no norm of this model was swapped")
    first = next(model.parameters(), None)
    for name, original in sites.items():
        now = model.get_submodule(name)
        if first is not None:
            original.to(first.device)
        model.set_submodule(name, original.train(now.training))
    return tuple(sites)


def _factory(norm: str | type[nn.Module], params: Mapping[str, Any]) -> NormFactory:
    choice = (
        NormChoice(norm, params) if isinstance(norm, str) else NormChoice(norm.__name__, params, outside=norm)
    )
    make = norm_factory(choice)
    if make.trial.lives_in_layer:
        raise ValueError(
            f"norm {choice.name}: it works through the layer before it, which a model does not name"
        )
    return make


def _in_place_of(original: nn.Module, make: NormFactory, site: str, *, keep: bool) -> nn.Module:
    shape = _shape(original)
    assert shape is not None, "of a module that can be swapped"
    norm = make(shape[0] if len(shape) == 1 else shape, site=site)
    own = next(original.parameters(), None)
    if own is not None:
        norm.to(own.device, own.dtype)
    placed: nn.Module = norm
    if keep:
        taken = {name for name in NAMES if _parameter(norm, name) is not None}
        kept = {name: _parameter(original, name) for name in sorted(NAMES)}
        for name in taken:
            if kept[name] is not None:
                norm.register_parameter(name, kept.pop(name))
        behind = {name: kept.get(name) for name in ("weight", "bias")}
        if any(parameter is not None for parameter in behind.values()):
            placed = WithAffine(norm, **behind)
    placed.__dict__[ORIGINAL] = (original,)
    return placed.train(original.training)


def _parameter(module: nn.Module, name: str) -> nn.Parameter | None:
    return module._parameters.get(name)


def _looks_like(module: nn.Module) -> bool:
    is_torchs = isinstance(module, nn.LayerNorm | nn.RMSNorm)
    named = type(module).__name__.lower().replace("_", "")
    return ORIGINAL not in module.__dict__ and (is_torchs or named.endswith(KINDS))


def _why_not(site: str, module: nn.Module, *, axes: bool) -> str | None:
    """Return why a module that is called a norm cannot be swapped, or None. `axes`: over several, it can."""
    kind, shape = type(module), _shape(module)
    if not site:
        return "the model itself is a norm: put another in its place"
    if {name for name, _ in module.named_parameters()} - NAMES:
        return f"{kind.__name__} has parameters beside a gain and a bias"
    if shape is None or (len(shape) != 1 and not axes):
        over = "unknown" if shape is None else len(shape)
        return f"{kind.__name__} is over {over} axes, not the last alone"
    if kind in (nn.LayerNorm, nn.RMSNorm) or (len(shape) == 1 and _is_over_rows(module, shape[0])):
        return None
    return f"{kind.__name__} is no norm of rows over the last axis"


def _shape(module: nn.Module) -> tuple[int, ...] | None:
    shape = getattr(module, "normalized_shape", None)
    weight = _parameter(module, "weight")
    if shape is None and weight is not None:
        shape = weight.shape
    return None if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)


@torch.no_grad()
def _is_over_rows(module: nn.Module, features: int) -> bool:
    """Return whether a module standardizes rows, or divides them by their root mean square, with its gain."""
    own = next(module.parameters(), torch.empty(0))
    generator = torch.Generator().manual_seed(0)
    x = (3 * torch.randn(2, 3, features, generator=generator) + 1).to(own.device, own.dtype)
    gain, bias = _parameter(module, "weight"), _parameter(module, "bias")
    try:
        z = module(x).double()
    except (RuntimeError, ValueError, TypeError, IndexError):
        return False
    x = x.double()
    centred = x - x.mean(-1, keepdim=True)
    bases: list[Tensor] = [part / part.square().mean(-1, keepdim=True).sqrt() for part in (centred, x)]
    gains: list[Callable[[Tensor], Tensor]] = [lambda y: y]
    if gain is not None:
        gains = [lambda y: y * gain.double(), lambda y: y * (1 + gain.double())]  # Gemma's is a gain less one
    expected = [scaled(y) + (0 if bias is None else bias.double()) for y in bases for scaled in gains]
    near = CLOSE if own.dtype in (torch.float32, torch.float64) else 0.02
    return z.shape == x.shape and any(torch.allclose(z, one, rtol=near, atol=near) for one in expected)
