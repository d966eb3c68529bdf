"""Put the suite's norms into models of any library: `adanorm.swap(model, "adanorm")`."""

import copy
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from adanorm.norms.base import ORIGINAL, Norm, upcast
from adanorm.norms.registry import NormChoice, NormFactory, norm_factory

KINDS = ("layernorm", "rmsnorm")  # parts of the names that libraries give to classes of norms
NAMES = ("weight", "bias")
Tied = dict[int, nn.Parameter]  # new parameters, by the id of the old parameter that each replaces
INDEX = re.compile(r"(?<=\w)\[(\d+)\]", re.ASCII)
CLOSE = 1e-3  # relative tolerance between a module and its formula, since an eps may differ
WIDEST_IMAGES = 2048  # channels of a norm that is also tried on images: (1, H, 1, H) grows with H^2
# The attributes of hooks. A norm and the one that it replaced share them: a hook stays on either.
HOOKS = [name for name in vars(nn.Module()) if "hook" in name and "state_dict" not in name]
OVER_POSITIONS = (
    "its statistics are over the positions of an example: padding counts, and in a causal model a"
    " later position changes what is computed at an earlier one"
)
OVER_BATCH = (
    "its statistics are over the batch: padding counts, and in training an example changes what is"
    " computed for another"
)


TRAINED = "the model was trained with its old norms: with others its outputs change"
DROPPED = f"{TRAINED}, also because their gains and biases are dropped, which keep=True keeps"


class Swapped(NamedTuple):
    """The sites that have another norm now, why others were left, and notes on the new norm."""

    sites: tuple[str, ...]
    left: Mapping[str, str]  # the reason, by the name of the module
    notes: tuple[str, ...] = ()


class WithAffine(Norm):
    """A norm, then gain (`added` + weight) and bias (H,) of the norm that it replaced."""

    def __init__(
        self, norm: Norm, weight: nn.Parameter | None, bias: nn.Parameter | None, added: int
    ) -> None:
        super().__init__()
        self.norm, self.weight, self.bias, self.added = norm, weight, bias, added

    def forward(self, x: Tensor) -> Tensor:
        """Return gain * norm(x) + bias, (..., H)."""
        z = self.norm(x)
        if self.weight is not None and self.added:
            z = (upcast(z) * (1 + upcast(self.weight))).to(z.dtype)
        elif self.weight is not None:
            z = z * self.weight
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
    of such a class. `params` are its settings. `where` holds names of modules, or globs over the
    names. With `keep` the old gains and biases stay, as the same parameters: instead of the new
    norm's, or applied after it. A module is swapped if it computes a LayerNorm or RMSNorm of rows
    over the last axis. Torch's norms over several axes are swapped if the new norm takes several.
    The new module gets type, device, hooks and mode of the old one; it learns if that did, and
    shares parameters where the old ones did. `restore` undoes the swap. Raises ValueError for an
    unknown norm or setting, if a name or glob matches no site, or if none of the matching sites can
    be swapped.
    """
    make = _factory(norm, params or {})
    chosen = _chosen(model, [where] if isinstance(where, str) else list(where))
    left = {}
    offsets: dict[str, int] = {}  # what each norm adds to its weight
    for name, module in chosen.items():
        result = _offset_or_obstacle(name, module, axes=make.trial.takes_axes)
        if isinstance(result, int):
            offsets[name] = result
        else:
            left[name] = result
    if len(left) == len(chosen):
        name, reason = next(iter(left.items()))
        rest = f"; none of {len(left) - 1} others can be swapped either" if len(left) > 1 else ""
        raise ValueError(f"{name or type(model).__name__}: {reason}{rest}")
    sites: list[str] = []
    for name in chosen:
        # A norm inside a swapped norm is replaced together with it.
        if name not in left and not any(name.startswith(f"{site}.") for site in sites):
            sites.append(name)
    replacements: dict[int, nn.Module] = {}  # one for a module at several sites
    tied: Tied = {}
    for name in sites:
        module = chosen[name]
        if id(module) not in replacements:
            replacement = _replacement(
                module,
                make,
                model,
                name,
                added=offsets[name] if keep else None,
                tied=tied,
            )
            replacements[id(module)] = replacement
    originals = {name: chosen[name] for name in sites}
    notes = [*_notes(make.trial), *_lost(model, originals, offsets, keep=keep)]
    # Only after all have been built, so that an error leaves the model as it was.
    for name, module in originals.items():
        model.set_submodule(name, replacements[id(module)])
    return Swapped(tuple(sites), left, tuple(notes))


def _chosen(model: nn.Module, patterns: list[str]) -> dict[str, nn.Module]:
    """Return the norms that the patterns name; ValueError for a pattern that names none."""
    norms = {
        name: module
        for name, module in model.named_modules(remove_duplicate=False)
        if is_norm(module)
    }
    names = set()
    for pattern in patterns or [""]:
        # A name goes before a glob, because a[0] is both.
        matching = [name for name in norms if name == pattern]
        if not matching:
            _check_no_index(model, pattern)
        matching = matching or [name for name in norms if fnmatchcase(name, pattern)]
        if not matching:
            is_done = any(ORIGINAL in module.__dict__ for module in model.modules())
            there = f"the model's are {', '.join(norms)}" if norms else "the model has none"
            if is_done and not norms:
                there = "the model's are swapped already: restore them first"
            raise ValueError(f"where={pattern!r}: no LayerNorm or RMSNorm there; {there}")
        names.update(matching)
    return {name: module for name, module in norms.items() if name in names}


def _check_no_index(model: nn.Module, pattern: str) -> None:
    """Raise ValueError for an index such as layers[0]: as a glob that is layers0."""
    for index in INDEX.finditer(pattern):
        before = pattern[: index.start()]
        for name, module in model.named_modules(remove_duplicate=False):
            if hasattr(module, "__getitem__") and fnmatchcase(name, before):
                names = INDEX.sub(r".\1", pattern)
                raise ValueError(f"where={pattern!r}: as names of modules, this is {names!r}")


def _notes(norm: Norm) -> Iterator[str]:
    if norm.depends_on_positions:
        yield OVER_POSITIONS
    if norm.depends_on_batch:
        yield OVER_BATCH


def _lost(
    model: nn.Module,
    originals: Mapping[str, nn.Module],
    offsets: Mapping[str, int],
    *,
    keep: bool,
) -> Iterator[str]:
    """Yield what the model does not keep of its old norms, by site, and where they still stand."""
    if any(_is_trained(norm, offsets[site]) for site, norm in originals.items()):
        yield TRAINED if keep else DROPPED
    names: dict[int, str] = {}  # of the old parameters
    for site, norm in originals.items():
        for name, parameter in norm.named_parameters(prefix=site):
            names[id(parameter)] = name
    for name, parameter in model.named_parameters(remove_duplicate=False):
        is_outside = name.rpartition(".")[0] not in originals
        if is_outside and not keep and id(parameter) in names:
            yield f"{name} was the same parameter as {names[id(parameter)]}, and stays as it is"
    sites = {id(norm): site for site, norm in originals.items()}
    for name, module in model.named_modules():
        for key, value in vars(module).items():
            for held in _members(value):
                if not key.startswith("_") and id(held) in sites:
                    site = sites[id(held)]
                    yield f"{name}.{key} holds {site} as no module: the old norm stays there"


def _is_trained(norm: nn.Module, added: int) -> bool:
    """Return whether a norm's gain or bias has moved off the value that it starts with."""
    initial = {"weight": 1 - added, "bias": 0}
    for name, value in initial.items():
        parameter = norm._parameters.get(name)
        if parameter is not None and not parameter.is_meta and (parameter != value).any():
            return True
    return False


def _members(value: object) -> list[object]:
    """Return what a list, a tuple or the values of a mapping hold; else the value itself."""
    if isinstance(value, Mapping):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else [value]


def restore(model: nn.Module) -> tuple[str, ...]:
    """Put back the norms that `swap` replaced in a model, and return their sites.

    They have followed the model's moves and casts since. Raises ValueError if none was swapped.
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
    settings = dict(params)
    numerics, backend = settings.pop("numerics", "paper"), settings.pop("backend", "auto")
    if isinstance(norm, str):
        choice = NormChoice(norm, settings, numerics, backend)
    else:
        name = getattr(norm, "__name__", repr(norm))
        choice = NormChoice(
            name,
            settings,
            numerics,
            backend,
            outside=norm,
        )
    make = norm_factory(choice)
    if make.trial.lives_in_layer:
        raise ValueError(
            f"norm {choice.name}: it works through the layer before it, which a model does not name"
        )
    return make


def _replacement(
    original: nn.Module,
    make: NormFactory,
    model: nn.Module,
    site: str,
    *,
    added: int | None,
    tied: Tied,
) -> nn.Module:
    """Return the norm for a site; with `added`, what the old gain lacks, it keeps gain and bias."""
    shape = shape_of(original)
    assert shape is not None, "of a module that can be swapped"
    norm = make(shape[0] if len(shape) == 1 else shape, site=site)
    _follow(norm, original, model, site)
    parameters = dict(original.named_parameters(recurse=False))
    if parameters:
        norm.requires_grad_(any(parameter.requires_grad for parameter in parameters.values()))
    replacement: nn.Module = norm
    paths: dict[str, str] = {}
    if added is not None:
        takes_gain = _takes_gain(make.trial, added)
        replacement, paths = _with_kept(norm, parameters, added, takes_gain=takes_gain)
    else:
        for name, parameter in norm.named_parameters():
            if name in parameters:
                parameter.requires_grad_(parameters[name].requires_grad)
                shared = tied.setdefault(id(parameters[name]), parameter)
                norm.register_parameter(name, shared)
    replacement.__dict__[ORIGINAL] = (original, paths)
    _share_hooks(original, replacement)
    return replacement.train(original.training)


def _follow(norm: Norm, original: nn.Module, model: nn.Module, site: str) -> None:
    """Give the norm the type and device of the old one, or of the nearest module that has some."""
    around = [original]
    while site:
        site = site.rpartition(".")[0]
        around.append(model.get_submodule(site))
    for module in around:
        nearest = next(module.parameters(), None)
        if nearest is not None:
            dtype = nearest.dtype if nearest.is_floating_point() else None
            norm.to(nearest.device, dtype)
            return


def _with_kept(
    norm: Norm, parameters: Mapping[str, nn.Parameter], added: int, *, takes_gain: bool
) -> tuple[nn.Module, dict[str, str]]:
    """Return the norm with the old gain and bias, and the path of each in it.

    They replace the new norm's own where these mean the same. Otherwise the new norm's own stay as
    they are, and the old ones are applied after it: first the gain, then the bias.
    """
    shared = []
    is_gain_inside = takes_gain or "weight" not in parameters
    for name in NAMES:
        inner = norm._parameters.get(name)
        if name not in parameters or inner is None:
            continue
        if is_gain_inside and inner.shape == parameters[name].shape:
            norm.register_parameter(name, parameters[name])
            shared.append(name)
        else:
            is_gain_inside = False  # or it would multiply the bias
            inner.requires_grad_(False)
    if "weight" not in shared and norm._parameters.get("gain_less_one") is not None:
        norm.get_parameter("gain_less_one").requires_grad_("weight" not in parameters)
    if len(shared) == len(parameters):
        return norm, {name: name for name in parameters}
    weight, bias = (None if name in shared else parameters.get(name) for name in NAMES)
    paths = {name: f"norm.{name}" if name in shared else name for name in parameters}
    return WithAffine(norm, weight, bias, added), paths


@torch.no_grad()
def _takes_gain(norm: Norm, added: int) -> bool:
    """Return whether a gain less `added` can be the norm's weight: where that is -added, z is 0."""
    probe = copy.deepcopy(norm).eval()
    weight = probe._parameters.get("weight")
    if weight is None or weight.dim() != 1:
        return False
    weight.fill_(-added)
    if probe._parameters.get("bias") is not None:
        probe.get_parameter("bias").zero_()
    x = torch.cos(torch.arange(6 * len(weight))).view(2, 3, -1)
    try:
        return not probe(x.to(weight)).any()
    except Exception:  # somebody's norm may raise anything
        return False


def _share_hooks(source: nn.Module, target: nn.Module) -> None:
    target.__dict__.update({name: source.__dict__[name] for name in HOOKS})


def is_norm(module: nn.Module) -> bool:
    """Return whether a module looks like a LayerNorm or RMSNorm of any library, not swapped yet."""
    if ORIGINAL in module.__dict__:
        return False
    class_name = type(module).__name__.lower().replace("_", "")
    is_torchs = isinstance(module, nn.LayerNorm | nn.RMSNorm)
    return is_torchs or any(kind in class_name for kind in KINDS)


def _offset_or_obstacle(site: str, module: nn.Module, *, axes: bool) -> int | str:
    """Return what a norm adds to its weight, or why a module named like a norm cannot be swapped.

    With `axes`, it may be over several axes.
    """
    name, shape = type(module).__name__, shape_of(module)
    if not site:
        return "the model itself is a norm: put another in its place"
    _, _, *more = inspect.signature(type(module).forward).parameters.values()
    extra = [entry.name for entry in more if entry.kind is entry.POSITIONAL_OR_KEYWORD]
    if extra:
        return f"{name} also takes {', '.join(extra)}"
    unknown = sorted(module.state_dict().keys() - set(NAMES))
    if unknown:
        return f"{name} has parameters beside weight and bias: {', '.join(unknown)}"
    if shape is None or (len(shape) != 1 and not axes):
        over = "unknown" if shape is None else len(shape)
        return f"{name} is over {over} axes, not the last alone"
    try:
        added = _added_to_gain(module)
    except Exception as error:  # a kernel that is not here may raise anything
        return f"{name} cannot be tried here: {type(error).__name__}: {error}"
    return f"{name} is no norm of rows over the last axis" if added is None else added


def shape_of(module: nn.Module) -> tuple[int, ...] | None:
    """Return the sizes of the last axes that a module normalizes over; None if it has none."""
    shape = getattr(module, "normalized_shape", None)
    weight = module._parameters.get("weight")
    if shape is None and weight is not None:
        shape = weight.shape
    if shape is None:
        return None
    return (shape,) if isinstance(shape, int) else tuple(shape)


@torch.no_grad()
def _added_to_gain(module: nn.Module) -> int | None:
    """Return what a norm adds to its `weight`: 0, or 1 where that is a gain less one (Gemma).

    Returns None if the module neither standardizes rows nor divides them by their root mean square,
    in training and in evaluation. Raises what the module raises. A copy is tried with a random gain
    and bias: those of the module may be 0, or have no numbers on `meta`.
    """
    if type(module) in (nn.LayerNorm, nn.RMSNorm):
        return 0
    shape = shape_of(module)
    if shape is None or len(shape) != 1:
        return None
    generator = torch.Generator().manual_seed(0)
    probe = copy.deepcopy(module)
    if any(parameter.is_meta for parameter in probe.parameters()):
        probe.to_empty(device="cpu")
    for parameter in probe.parameters():
        # Of both signs: a gain may be used by its size alone.
        parameter.copy_(torch.randn(parameter.shape, generator=generator))
    like = next(probe.parameters(), torch.empty(0))
    rows = torch.randn(
        2,
        3,
        *shape,
        generator=generator,
    ).to(like.device, like.dtype)
    possible = _possible_gains(probe, rows)
    # Images have their channels second in some libraries, and last in others.
    if shape[0] <= WIDEST_IMAGES and possible:
        images = torch.randn(
            1,
            *shape,
            1,
            *shape,
            generator=generator,
        ).to(rows)
        with suppress(RuntimeError, ValueError, TypeError, IndexError):  # a norm of sequences alone
            possible &= _possible_gains(probe, images)
    return min(possible, default=None)


def _possible_gains(norm: nn.Module, x: Tensor) -> set[int]:
    """Return which numbers, added to a norm's weight, give a gain that explains its z (..., H)."""
    gain, bias = (norm._parameters.get(name) for name in NAMES)
    tolerance = CLOSE if x.dtype in (torch.float32, torch.float64) else 0.02
    x = 3 * x + 1
    wide = x.double()
    centred = wide - wide.mean(-1, keepdim=True)
    possible = {0} if gain is None else {0, 1}
    for is_training in (True, False):
        z = norm.train(is_training).forward(x).double()  # past its hooks
        explained = set()
        for added in possible:
            for part in (centred, wide):
                expected = part / part.square().mean(-1, keepdim=True).sqrt()
                if gain is not None:
                    expected = expected * (added + gain.double())
                if bias is not None:
                    expected = expected + bias.double()
                if z.shape == x.shape and torch.allclose(
                    z,
                    expected,
                    tolerance,
                    tolerance,
                ):
                    explained.add(added)
        possible = explained
    return possible
