"""Norms of the suite in models of any library: `adanorm.swap(model, "adanorm")`."""

import copy
import inspect
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from adanorm.norms.base import ORIGINAL, Norm, upcast
from adanorm.norms.registry import NormChoice, NormFactory, norm_factory

KINDS = ("layernorm", "rmsnorm")  # what a class's name has in it, in any library
NAMES = ("weight", "bias")
Tied = dict[int, nn.Parameter]  # what is put in, by the parameter that it is put in the place of
CLOSE = 1e-3  # relative, of what a module gives to what its formula gives: an eps may differ
# A norm and the one whose place it took have these in common: a hook stays, wherever it was registered.
HOOKS = [name for name, value in vars(nn.Module()).items() if "hook" in name and "state_dict" not in name]


class Swapped(NamedTuple):
    """The sites of a model that have another norm now, and why others that look like norms have not."""

    sites: tuple[str, ...]
    left: Mapping[str, str]


class WithAffine(Norm):
    """A norm with the gain and the bias (H,) of the one whose place it took, behind it.

    The gain is `added` + weight, as it was there.
    """

    def __init__(
        self, norm: Norm, weight: nn.Parameter | None, bias: nn.Parameter | None, added: int = 0
    ) -> None:
        super().__init__()
        self.norm, self.weight, self.bias, self.added = norm, weight, bias, added

    def forward(self, x: Tensor) -> Tensor:
        """Return gain * norm(x) + bias, (..., H)."""
        z: Tensor = self.norm(x)
        if self.weight is not None:
            z = (upcast(z) * (1 + upcast(self.weight))).to(z.dtype) if self.added else z * self.weight
        return z if self.bias is None else z + self.bias


def swap(
    model: nn.Module,
    norm: str | type[nn.Module] | partial[nn.Module],
    *,
    where: str | Sequence[str] = "*",
    params: Mapping[str, Any] | None = None,
    keep: bool = False,
) -> Swapped:
    """Put a norm in the place of a model's LayerNorm and RMSNorm modules, and return at which sites.

    `norm` is a name of the suite, or a class that takes the number of features, or a functools.partial
    of one; `params` are its settings, and `where` are globs over the names of modules. With `keep` the
    gains and biases that were there stay, as the same parameters, behind the norm or in place of its own.
    A module counts as a norm by what it computes: of a row, over its last axis; torch's over several axes
    are swapped for norms that take several. What is put in has the type, device, hooks and mode of what
    was there, learns where that did, and shares parameters where those did. `restore` undoes it. Raises
    ValueError for an unknown norm or setting, where a glob matches no site, or where no site that does can
    be swapped.
    """
    globs = [where] if isinstance(where, str) else list(where)
    make = _factory(norm, params or {})
    norms = {name: module for name, module in model.named_modules(remove_duplicate=False) if is_norm(module)}
    for glob in globs or [""]:
        if not any(fnmatchcase(name, glob) for name in norms):
            is_done = any(ORIGINAL in module.__dict__ for module in model.modules())
            known = ", ".join(norms) or ("swapped already: restore them first" if is_done else "none")
            raise ValueError(f"where={glob!r}: no LayerNorm or RMSNorm there; the model's are {known}")
    chosen = {name: module for name, module in norms.items() if any(fnmatchcase(name, g) for g in globs)}
    whys = {name: _why_not(name, one, axes=make.trial.takes_axes) for name, one in chosen.items()}
    left = {name: reason for name, reason in whys.items() if reason}
    if len(left) == len(chosen):
        first, reason = next(iter(left.items()))
        others = f"; none of {len(left) - 1} others can be swapped either" if len(left) > 1 else ""
        raise ValueError(f"{first}: {reason}{others}")
    taken = [name for name in chosen if name not in left]
    # What is inside a norm that is swapped goes with it.
    sites = [name for name in taken if not any(name.startswith(f"{outer}.") for outer in taken)]
    made: dict[int, nn.Module] = {}  # a module at several sites stays one
    tied: Tied = {}
    for name in sites:
        if id(module := chosen[name]) not in made:
            made[id(module)] = _in_place_of(module, make, model, name, keep=keep, tied=tied)
    for name in sites:  # when all could be made
        model.set_submodule(name, made[id(chosen[name])])
    return Swapped(tuple(sites), left)


def restore(model: nn.Module) -> tuple[str, ...]:
    """Put back the norms that `swap` took out of a model, as it is now, and return at which sites.

    They have gone along where the model was moved or cast. Raises ValueError where none was swapped.
    """
    modules = model.named_modules(remove_duplicate=False)
    sites = {name: module for name, module in modules if ORIGINAL in module.__dict__}
    if not sites:
        raise ValueError("no norm of this model was swapped")
    for name, placed in sites.items():
        original, kept = placed.__dict__[ORIGINAL]
        for key, (owner, own) in kept.items():
            original.register_parameter(key, getattr(placed.get_submodule(owner), own))
        _share_hooks(placed, original)
        model.set_submodule(name, original.train(placed.training))
    return tuple(sites)


def _factory(norm: str | type[nn.Module] | partial[nn.Module], params: Mapping[str, Any]) -> NormFactory:
    if isinstance(norm, partial):
        if norm.args:
            raise ValueError(f"{norm}: give settings by name, the first argument is the number of features")
        return _factory(norm.func, {**norm.keywords, **params})  # type: ignore[arg-type]
    name = norm if isinstance(norm, str) else getattr(norm, "__name__", repr(norm))
    settings, outside = dict(params), None if isinstance(norm, str) else norm
    computed = settings.pop("numerics", "paper"), settings.pop("backend", "auto")
    make = norm_factory(NormChoice(name, settings, *computed, outside))
    if make.trial.lives_in_layer:
        raise ValueError(f"norm {name}: it works through the layer before it, which a model does not name")
    return make


def _in_place_of(
    original: nn.Module, make: NormFactory, model: nn.Module, site: str, *, keep: bool, tied: Tied
) -> nn.Module:
    shape = shape_of(original)
    assert shape is not None, "of a module that can be swapped"
    norm = make(shape[0] if len(shape) == 1 else shape, site=site)
    theirs = dict(original.named_parameters(recurse=False))
    # A norm without parameters has the type and device of what is nearest around it.
    around = [model.get_submodule(site.rsplit(".", count)[0]) for count in range(1, site.count(".") + 1)]
    near = next((p for part in (original, *around, model) for p in part.parameters()), None)
    if near is not None:
        norm.to(near.device, near.dtype if near.is_floating_point() else None)
    if theirs:
        norm.requires_grad_(any(parameter.requires_grad for parameter in theirs.values()))
    placed, kept = norm, {}
    if keep:
        own = [name for name in NAMES if norm._parameters.get(name) is not None and name in theirs]
        if added := _added_to_gain(original) or 0:  # its weight is no gain of another norm
            own = [name for name in own if name != "weight"]
            if norm.weight is not None:
                norm.weight.requires_grad_(False)  # the kept gain stands for it
        for name in own:
            norm.register_parameter(name, theirs[name])
        if len(own) < len(theirs):
            weight, bias = (None if name in own else theirs.get(name) for name in NAMES)
            placed = WithAffine(norm, weight, bias, added)
        inner = "" if placed is norm else "norm"
        kept = {name: (inner if name in own else "", name) for name in theirs}
    else:
        for name, parameter in norm.named_parameters():
            if name in theirs:
                parameter.requires_grad_(theirs[name].requires_grad)
                norm.register_parameter(name, tied.setdefault(id(theirs[name]), parameter))
    placed.__dict__[ORIGINAL] = (original, kept)
    _share_hooks(original, placed)
    return placed.train(original.training)


def _share_hooks(one: nn.Module, other: nn.Module) -> None:
    other.__dict__.update({name: one.__dict__[name] for name in HOOKS})


def is_norm(module: nn.Module) -> bool:
    """Return whether a module looks like a LayerNorm or an RMSNorm, of any library, that was not swapped."""
    named = type(module).__name__.lower().replace("_", "")
    is_torchs = isinstance(module, nn.LayerNorm | nn.RMSNorm)
    return ORIGINAL not in module.__dict__ and (is_torchs or any(kind in named for kind in KINDS))


def _why_not(site: str, module: nn.Module, *, axes: bool) -> str | None:
    """Return why a module that is called a norm cannot be swapped, or None. `axes`: over several, it can."""
    kind, shape = type(module), shape_of(module)
    if not site:
        return "the model itself is a norm: put another in its place"
    _, *others = inspect.signature(kind.forward).parameters.values()
    if beside := [one.name for one in others[1:] if one.kind is one.POSITIONAL_OR_KEYWORD]:
        return f"{kind.__name__} also takes {', '.join(beside)}"
    if {name for name, _ in module.named_parameters()} - {*NAMES}:
        return f"{kind.__name__} has parameters beside a gain and a bias"
    if shape is None or (len(shape) != 1 and not axes):
        over = "unknown" if shape is None else len(shape)
        return f"{kind.__name__} is over {over} axes, not the last alone"
    is_norm_of_rows = _added_to_gain(module) is not None
    return None if is_norm_of_rows else f"{kind.__name__} is no norm of rows over the last axis"


def shape_of(module: nn.Module) -> tuple[int, ...] | None:
    """Return the sizes of the last axes that a norm is over, None where nothing in it says so."""
    shape = getattr(module, "normalized_shape", None)
    weight = module._parameters.get("weight")
    if shape is None and weight is not None:
        shape = weight.shape
    return None if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)


@torch.no_grad()
def _added_to_gain(module: nn.Module) -> int | None:
    """Return what is added to a norm's `weight`, 0 or 1 (Gemma's is a gain less one).

    None of a module that does not standardize rows, nor divide them by their root mean square. A copy is
    asked, with a gain and a bias of its own: those of the module may be 0, or have no numbers on `meta`.
    """
    if type(module) in (nn.LayerNorm, nn.RMSNorm):
        return 0
    shape, generator = shape_of(module), torch.Generator().manual_seed(0)
    if shape is None or len(shape) != 1:
        return None
    try:
        probe = copy.deepcopy(module)
        own = next(probe.parameters(), torch.empty(0))
        if own.is_meta:
            own = next(probe.to_empty(device="cpu").parameters())
        for parameter in probe.parameters():
            parameter.copy_(torch.rand(parameter.shape, generator=generator) + 0.5)
        x = (3 * torch.randn(2, 3, *shape, generator=generator) + 1).to(own.device, own.dtype)
        z = probe.forward(x).double()  # past its hooks
    except (RuntimeError, ValueError, TypeError, IndexError):
        return None
    gain, bias = (probe._parameters.get(name) for name in NAMES)
    x = x.double()
    centred = x - x.mean(-1, keepdim=True)
    bases: list[Tensor] = [part / part.square().mean(-1, keepdim=True).sqrt() for part in (centred, x)]
    gains = [1] if gain is None else [gain.double(), 1 + gain.double()]
    near = CLOSE if own.dtype in (torch.float32, torch.float64) else 0.02
    for added, base in product(range(len(gains)), bases):
        expected = base * gains[added] + (0 if bias is None else bias.double())
        if z.shape == x.shape and torch.allclose(z, expected, rtol=near, atol=near):
            return added
    return None
