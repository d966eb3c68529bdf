"""Put the suite's norms into models of any library: `adanorm.swap(model, "adanorm")`."""

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

KINDS = ("layernorm", "rmsnorm")  # parts of the names that libraries give to classes of norms
NAMES = ("weight", "bias")
Tied = dict[int, nn.Parameter]  # new parameters, by the id of the old parameter that each replaces
CLOSE = 1e-3  # relative tolerance between a module and its formula, since an eps may differ
# The attributes of hooks. A norm and the one that it replaced share them: a hook stays on either.
HOOKS = [
    name for name, value in vars(nn.Module()).items() if "hook" in name and "state_dict" not in name
]


class Swapped(NamedTuple):
    """The sites where a model has another norm now, and for each site left as it was the reason."""

    sites: tuple[str, ...]
    left: Mapping[str, str]


class WithAffine(Norm):
    """A norm, then the gain and the bias (H,) of the norm that it replaced; the gain is `added` + weight."""

    def __init__(
        self, norm: Norm, weight: nn.Parameter | None, bias: nn.Parameter | None, added: int
    ) -> None:
        super().__init__()
        self.norm, self.weight, self.bias, self.added = norm, weight, bias, added

    def forward(self, x: Tensor) -> Tensor:
        """Return gain * norm(x) + bias, (..., H)."""
        z: Tensor = self.norm(x)
        if self.weight is not None:
            z = (
                (upcast(z) * (1 + upcast(self.weight))).to(z.dtype)
                if self.added
                else z * self.weight
            )
        return z if self.bias is None else z + self.bias


def swap(
    model: nn.Module,
    norm: str | type[nn.Module] | partial[nn.Module],
    *,
    where: str | Sequence[str] = "*",
    params: Mapping[str, Any] | None = None,
    keep: bool = False,
) -> Swapped:
    """Replace a model's LayerNorm and RMSNorm modules by another norm, and return the sites.

    `norm` is a name of the suite, a class that takes the number of features, or a functools.partial
    of such a class. `params` are its settings, and `where` holds globs over the names of modules.
    With `keep` the old gains and biases stay, as the same parameters: instead of the new norm's, or
    applied after it. A module is swapped if it computes a LayerNorm or RMSNorm of rows over the
    last axis. Torch's norms over several axes are swapped if the new norm takes several. The new
    module gets type, device, hooks and mode of the old one; it learns if that did, and shares
    parameters where the old ones did. `restore` undoes the swap. Raises ValueError for an unknown
    norm or setting, if a glob matches no site, or if none of the matching sites can be swapped.
    """
    globs = [where] if isinstance(where, str) else list(where)
    make = _factory(norm, params or {})
    norms = {
        name: module
        for name, module in model.named_modules(remove_duplicate=False)
        if is_norm(module)
    }
    for glob in globs or [""]:
        if not any(fnmatchcase(name, glob) for name in norms):
            is_done = any(ORIGINAL in module.__dict__ for module in model.modules())
            names = ", ".join(norms) or (
                "swapped already: restore them first" if is_done else "none"
            )
            raise ValueError(
                f"where={glob!r}: no LayerNorm or RMSNorm there; the model's are {names}"
            )
    matches = {
        name: module for name, module in norms.items() if any(fnmatchcase(name, g) for g in globs)
    }
    reasons = {
        name: _obstacle(name, one, axes=make.trial.takes_axes) for name, one in matches.items()
    }
    left = {name: reason for name, reason in reasons.items() if reason}
    if len(left) == len(matches):
        first, reason = next(iter(left.items()))
        others = f"; none of {len(left) - 1} others can be swapped either" if len(left) > 1 else ""
        raise ValueError(f"{first}: {reason}{others}")
    swappable = [name for name in matches if name not in left]
    # A norm inside a swapped norm is replaced together with it.
    sites = [
        name for name in swappable if not any(name.startswith(f"{outer}.") for outer in swappable)
    ]
    replacements: dict[int, nn.Module] = {}  # one for a module at several sites
    tied: Tied = {}
    for name in sites:
        if id(module := matches[name]) not in replacements:
            replacements[id(module)] = _replacement(module, make, model, name, keep=keep, tied=tied)
    for (
        name
    ) in sites:  # only after all have been built, so that an error leaves the model as it was
        model.set_submodule(name, replacements[id(matches[name])])
    return Swapped(tuple(sites), left)


def restore(model: nn.Module) -> tuple[str, ...]:
    """Put back the norms that `swap` replaced in a model, and return their sites.

    They have followed the model's moves and casts since then. Raises ValueError if none was
    swapped.
    """
    modules = model.named_modules(remove_duplicate=False)
    sites = {name: module for name, module in modules if ORIGINAL in module.__dict__}
    if not sites:
        raise ValueError("no norm of this model was swapped")
    for name, replacement in sites.items():
        original, paths = replacement.__dict__[ORIGINAL]
        for key, path in paths.items():
            original.register_parameter(key, replacement.get_parameter(path))
        _share_hooks(replacement, original)
        model.set_submodule(name, original.train(replacement.training))
    return tuple(sites)


def _factory(
    norm: str | type[nn.Module] | partial[nn.Module], params: Mapping[str, Any]
) -> NormFactory:
    if isinstance(norm, partial):
        if norm.args:
            raise ValueError(
                f"{norm}: give settings by name, the first argument is the number of features"
            )
        return _factory(norm.func, {**norm.keywords, **params})  # type: ignore[arg-type]
    name = norm if isinstance(norm, str) else getattr(norm, "__name__", repr(norm))
    settings, outside = dict(params), None if isinstance(norm, str) else norm
    computation = settings.pop("numerics", "paper"), settings.pop("backend", "auto")
    make = norm_factory(NormChoice(name, settings, *computation, outside))
    if make.trial.lives_in_layer:
        raise ValueError(
            f"norm {name}: it works through the layer before it, which a model does not name"
        )
    return make


def _replacement(
    original: nn.Module, make: NormFactory, model: nn.Module, site: str, *, keep: bool, tied: Tied
) -> nn.Module:
    shape = shape_of(original)
    assert shape is not None, "of a module that can be swapped"
    norm = make(shape[0] if len(shape) == 1 else shape, site=site)
    parameters = dict(original.named_parameters(recurse=False))
    # A norm without parameters takes type and device from the nearest module around it that has
    # some.
    around = [
        model.get_submodule(site.rsplit(".", count)[0]) for count in range(1, site.count(".") + 1)
    ]
    nearest = next((p for part in (original, *around, model) for p in part.parameters()), None)
    if nearest is not None:
        norm.to(nearest.device, nearest.dtype if nearest.is_floating_point() else None)
    if parameters:
        norm.requires_grad_(any(parameter.requires_grad for parameter in parameters.values()))
    replacement, paths = norm, {}
    if keep:
        shared = [
            name for name in NAMES if norm._parameters.get(name) is not None and name in parameters
        ]
        if (
            added := _added_to_gain(original) or 0
        ):  # its weight is a gain less one, not the new norm's gain
            shared = [name for name in shared if name != "weight"]
            if norm.weight is not None:
                norm.weight.requires_grad_(False)  # the kept gain is trained instead
        for name in shared:
            norm.register_parameter(name, parameters[name])
        if len(shared) < len(parameters):
            weight, bias = (None if name in shared else parameters.get(name) for name in NAMES)
            replacement = WithAffine(norm, weight, bias, added)
        inner = "" if replacement is norm else "norm."
        paths = {name: f"{inner if name in shared else ''}{name}" for name in parameters}
    else:
        for name, parameter in norm.named_parameters():
            if name in parameters:
                parameter.requires_grad_(parameters[name].requires_grad)
                norm.register_parameter(name, tied.setdefault(id(parameters[name]), parameter))
    replacement.__dict__[ORIGINAL] = (original, paths)
    _share_hooks(original, replacement)
    return replacement.train(original.training)


def _share_hooks(source: nn.Module, target: nn.Module) -> None:
    target.__dict__.update({name: source.__dict__[name] for name in HOOKS})


def is_norm(module: nn.Module) -> bool:
    """Return whether a module looks like a LayerNorm or RMSNorm of any library and is no swapped norm."""
    class_name = type(module).__name__.lower().replace("_", "")
    is_torchs = isinstance(module, nn.LayerNorm | nn.RMSNorm)
    return ORIGINAL not in module.__dict__ and (
        is_torchs or any(kind in class_name for kind in KINDS)
    )


def _obstacle(site: str, module: nn.Module, *, axes: bool) -> str | None:
    """Return why a module named like a norm cannot be swapped, or None; `axes`: several axes are allowed."""
    kind, shape = type(module), shape_of(module)
    if not site:
        return "the model itself is a norm: put another in its place"
    _, *others = inspect.signature(kind.forward).parameters.values()
    if extra := [one.name for one in others[1:] if one.kind is one.POSITIONAL_OR_KEYWORD]:
        return f"{kind.__name__} also takes {', '.join(extra)}"
    if {name for name, _ in module.named_parameters()} - {*NAMES}:
        return f"{kind.__name__} has parameters beside a gain and a bias"
    if shape is None or (len(shape) != 1 and not axes):
        over = "unknown" if shape is None else len(shape)
        return f"{kind.__name__} is over {over} axes, not the last alone"
    is_norm_of_rows = _added_to_gain(module) is not None
    return None if is_norm_of_rows else f"{kind.__name__} is no norm of rows over the last axis"


def shape_of(module: nn.Module) -> tuple[int, ...] | None:
    """Return the sizes of the last axes that a module normalizes over; None if it does not hold them."""
    shape = getattr(module, "normalized_shape", None)
    weight = module._parameters.get("weight")
    if shape is None and weight is not None:
        shape = weight.shape
    return None if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)


@torch.no_grad()
def _added_to_gain(module: nn.Module) -> int | None:
    """Return what a norm adds to its `weight`: 0, or 1 as in Gemma, whose weight is a gain less one.

    Returns None if the module neither standardizes rows nor divides them by their root mean square.
    A copy is tried with a random gain and bias: those of the module may be 0, or have no numbers on
    `meta`.
    """
    if type(module) in (nn.LayerNorm, nn.RMSNorm):
        return 0
    shape, generator = shape_of(module), torch.Generator().manual_seed(0)
    if shape is None or len(shape) != 1:
        return None
    try:
        probe = copy.deepcopy(module)
        first = next(probe.parameters(), torch.empty(0))
        if first.is_meta:
            first = next(probe.to_empty(device="cpu").parameters())
        for parameter in probe.parameters():
            parameter.copy_(torch.rand(parameter.shape, generator=generator) + 0.5)
        x = (3 * torch.randn(2, 3, *shape, generator=generator) + 1).to(first.device, first.dtype)
        z = probe.forward(x).double()  # past its hooks
    except (RuntimeError, ValueError, TypeError, IndexError):
        return None
    gain, bias = (probe._parameters.get(name) for name in NAMES)
    x = x.double()
    centred = x - x.mean(-1, keepdim=True)
    bases: list[Tensor] = [
        part / part.square().mean(-1, keepdim=True).sqrt() for part in (centred, x)
    ]
    gains = [1] if gain is None else [gain.double(), 1 + gain.double()]
    tolerance = CLOSE if first.dtype in (torch.float32, torch.float64) else 0.02
    for added, base in product(range(len(gains)), bases):
        expected = base * gains[added] + (0 if bias is None else bias.double())
        if z.shape == x.shape and torch.allclose(z, expected, rtol=tolerance, atol=tolerance):
            return added
    return None
