"""Finding a norm by name, and making it: a plain dict, entry points, or a dotted path."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any, Protocol

from torch import nn

from adanorm.norms import family, over_batch, over_positions, rowwise

NORMS: dict[str, type[nn.Module]] = {
    "none": family.NoNorm,
    "layernorm": family.LayerNorm,
    "layernorm-simple": family.LayerNormSimple,
    "detachnorm": family.DetachNorm,
    "detach-mean": family.DetachMean,
    "detach-var": family.DetachVariance,
    "adanorm": family.AdaNorm,
    "batchnorm": over_batch.BatchNorm,
    "batchnorm-noisy": over_batch.NoisyBatchNorm,
    "powernorm": over_batch.PowerNorm,
    "instancenorm": over_positions.InstanceNorm,
    "groupnorm": over_positions.GroupNorm,
    "rmsnorm": rowwise.RmsNorm,
    "partial-rmsnorm": rowwise.PartialRmsNorm,
    "scalenorm": rowwise.ScaleNorm,
    "dynamic-tanh": rowwise.DynamicTanh,
    "weightnorm": rowwise.WeightNorm,
}


class MakeNorm(Protocol):
    """All that a model sees of a norm."""

    def __call__(self, dim: int, *, site: str) -> nn.Module:
        """Return the norm of `dim` features for the named site, mapping (..., dim) to itself."""


def norm_class(name: str, path: str | None = None) -> Any:
    """Return the class of a norm: of `path` ("package.module:Class") if given, else by name.

    Names are those of NORMS and of the entry points in the group `adanorm.norms`. Raises
    ValueError naming the choices.
    """
    if path is not None:
        module, _, attribute = path.partition(":")
        if not module or not attribute:
            raise ValueError(f"norm.path={path!r}: write it as package.module:Class")
        try:
            return getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise ValueError(f"norm.path={path!r}: {error}") from None
    if name in NORMS:
        return NORMS[name]
    outside = {point.name: point for point in entry_points(group="adanorm.norms")}
    if name in outside:
        return outside[name].load()
    raise ValueError(f"unknown norm {name!r}: choose from {', '.join([*NORMS, *sorted(outside)])}")


def norm_factory(
    name: str,
    params: Mapping[str, Any] | None = None,
    *,
    numerics: str = "paper",
    backend: str = "auto",
    path: str | None = None,
) -> MakeNorm:
    """Return make_norm(dim, *, site) for a norm with its parameters.

    `none` and `layernorm` are PyTorch's own under any backend. Raises ValueError at once, before
    any model is built, for an unknown norm, an unknown parameter or a value outside its range.
    """
    cls = norm_class(name, path)
    settings = _settings(name, cls, params or {}, numerics=numerics, backend=backend)
    _trial(name, cls, settings)

    def make_norm(dim: int, *, site: str) -> nn.Module:
        norm: nn.Module = cls(dim, **settings)
        return norm

    return make_norm


def trial_norm(
    name: str, params: Mapping[str, Any], *, numerics: str, backend: str, path: str | None = None
) -> nn.Module:
    """Return a norm of a few features, to look at what it needs; raises as norm_factory does."""
    cls = norm_class(name, path)
    return _trial(name, cls, _settings(name, cls, params, numerics=numerics, backend=backend))


def parameters_of(name: str) -> list[str]:
    """Return the names of the parameters that a norm of the suite takes."""
    taken = inspect.signature(NORMS[name]).parameters
    return [key for key in taken if key not in ("dim", "numerics", "backend")]


def _settings(
    name: str, cls: Any, params: Mapping[str, Any], *, numerics: str, backend: str
) -> dict[str, Any]:
    """Return the keyword arguments of a norm's class."""
    signature = inspect.signature(cls).parameters
    accepted = [p for p in signature if p not in ("dim", "numerics", "backend")]
    settings = dict(params)
    for key, value in settings.items():
        if key not in accepted:
            takes = f"it takes {', '.join(accepted)}" if accepted else "it takes none"
            raise ValueError(f"norm.params.{key}: {name} has no such parameter; {takes}")
        if name in NORMS:
            _check_type(key, value, signature[key].default)
    for choice, value, default in (("numerics", numerics, "paper"), ("backend", backend, "auto")):
        if choice in signature:
            settings[choice] = value
        elif name not in NORMS and value != default:
            raise ValueError(f"norm.{choice}={value}: {name} has no choice of {choice}")
    return settings


def _trial(name: str, cls: Any, settings: Mapping[str, Any]) -> nn.Module:
    signature = inspect.signature(cls).parameters
    # Groups, where there are such, must divide the features.
    groups = settings.get("groups", signature["groups"].default) if "groups" in signature else 1
    try:
        norm: nn.Module = cls(2 * int(groups or 1), **settings)
    except (ValueError, TypeError) as error:
        raise ValueError(f"norm {name}: {error}") from None
    return norm


def _check_type(key: str, value: Any, default: Any) -> None:
    for kind, described in ((bool, "true or false"), (str, "a word")):
        if isinstance(default, kind) != isinstance(value, kind):
            expected = described if isinstance(default, kind) else "a number"
            raise ValueError(f"norm.params.{key}={value!r}: must be {expected}")
