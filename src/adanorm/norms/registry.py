"""Choosing a norm by its name or class, and building it."""

import math
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple, Protocol

from adanorm.norms import family, over_rows, rowwise
from adanorm.norms.base import Norm, as_norm, parameters_of, signature_of, takes

NORMS: dict[str, type[Norm]] = {
    "none": family.NoNorm,
    "layernorm": family.LayerNorm,
    "layernorm-simple": family.LayerNormSimple,
    "detachnorm": family.DetachNorm,
    "detach-mean": family.DetachMean,
    "detach-var": family.DetachVariance,
    "adanorm": family.AdaNorm,
    "gradnorm": family.GradNorm,
    "grad-only": family.GradOnly,
    "grad-mean": family.GradMean,
    "grad-variance": family.GradVariance,
    "grad-scale": family.GradScale,
    "topk": family.TopK,
    "batchnorm": over_rows.BatchNorm,
    "batchnorm-noisy": over_rows.NoisyBatchNorm,
    "powernorm": over_rows.PowerNorm,
    "instancenorm": over_rows.InstanceNorm,
    "groupnorm": over_rows.GroupNorm,
    "rmsnorm": rowwise.RmsNorm,
    "partial-rmsnorm": rowwise.PartialRmsNorm,
    "simple-rmsnorm": rowwise.SimpleRmsNorm,
    "preaffine-rmsnorm": rowwise.PreAffineRmsNorm,
    "scalenorm": rowwise.ScaleNorm,
    "dynamic-tanh": rowwise.DynamicTanh,
    "derf": rowwise.Derf,
    "pointwise": rowwise.Pointwise,
    "seednorm": rowwise.SeeDNorm,
    "gatednorm": rowwise.GatedNorm,
    "weightnorm": rowwise.WeightNorm,
}


class NormChoice(NamedTuple):
    """A norm and its settings: `NormChoice("adanorm", {"k": 0.2})`."""

    name: str  # a key of NORMS, or the name of a norm from outside
    params: Mapping[str, Any] = {}  # keyword arguments of the class
    numerics: str = "paper"  # or `released`, where the class has the choice
    backend: str = "auto"  # or `eager` or `fused`, where the class has the choice
    outside: Any = None  # the class of a norm from outside, any nn.Module that takes `dim`


class MakeNorm(Protocol):
    """The whole interface by which a model gets its norms."""

    def __call__(self, dim: int, *, site: str) -> Norm:
        """Return a norm of `dim` features for the named site, mapping (..., dim) to (..., dim)."""


TRIAL_WIDTH = 48  # features of a norm that is built as a trial before any model, or checked


class NormFactory(NamedTuple):
    """A MakeNorm with checked settings; `trial` is a small norm with its declarations."""

    cls: type[Norm]
    settings: Mapping[str, Any]
    trial: Norm

    def __call__(self, dim: int | tuple[int, ...], *, site: str) -> Norm:
        """Return the norm for the named site; only one that `takes_axes` takes several sizes."""
        return self.cls(dim, **self.settings)


def norm_factory(norm: NormChoice) -> NormFactory:
    """Return make_norm(dim, *, site) for a norm.

    PyTorch computes `none` and `layernorm` under every backend. Raises ValueError before any model
    is built: for an unknown norm, an unknown parameter or a value outside its range.
    """
    if norm.outside is None and norm.name not in NORMS:
        similar = get_close_matches(norm.name.lower(), NORMS, n=1)
        hint = f"; did you mean {similar[0]}?" if similar else ""
        raise ValueError(f"unknown norm {norm.name!r}: choose from {', '.join(NORMS)}{hint}")
    cls = as_norm(NORMS[norm.name] if norm.outside is None else norm.outside)
    if norm.outside is not None:
        _check_first_argument(cls, norm.name)
    settings = _settings(cls, norm)
    # Common numbers of heads divide TRIAL_WIDTH; lcm makes a width that the number of groups
    # divides too.
    default_groups = getattr(signature_of(cls).get("groups"), "default", 1)
    groups = settings.get("groups", default_groups)
    features = (
        math.lcm(TRIAL_WIDTH, int(groups) or 1) if isinstance(groups, int | float) else TRIAL_WIDTH
    )
    try:
        if norm.outside is None:
            return NormFactory(cls, settings, cls(features, **settings))
        from adanorm.norms.process_settings import settings_kept

        with settings_kept("building it"):
            return NormFactory(cls, settings, cls(features, **settings))
    except (ValueError, TypeError) as error:
        raise ValueError(f"norm {norm.name}: {error}") from None
    except (Exception, SystemExit) as error:  # a class from outside may raise anything
        if norm.outside is None:
            raise
        raise ValueError(f"norm {norm.name}: {type(error).__name__}: {error}") from error


def _check_first_argument(cls: type[Norm], name: str) -> None:
    """Raise ValueError if the first argument of a norm's class is a setting, not its width."""
    first = [*signature_of(cls).values()][1:2]
    if first and isinstance(first[0].default, float):
        raise ValueError(
            f"norm {name}: the first argument of {cls.__name__} is {first[0]}; a norm is"
            " constructed from its width, which comes first"
        )


def has_setting(cls: type[Norm], setting: str) -> bool:
    """Return whether a class of norms takes a setting: a parameter, `numerics` or `backend`."""
    return setting in signature_of(cls)


def _settings(cls: type[Norm], norm: NormChoice) -> dict[str, Any]:
    """Return the keyword arguments of a norm's class."""
    signature = signature_of(cls)
    accepted, settings = parameters_of(cls), dict(norm.params)
    for key, value in settings.items():
        if key not in accepted:
            hint = takes(cls, key)
            raise ValueError(f"norm.params.{key}: {norm.name} has no such parameter; {hint}")
        default = signature[key].default
        is_plain = norm.outside is None or isinstance(default, bool | int | float | str)
        if is_plain and _kind(default) != _kind(value):
            raise ValueError(f"norm.params.{key}={value!r}: must be {_kind(default)}")
    for choice, value, default in (
        ("numerics", norm.numerics, "paper"),
        ("backend", norm.backend, "auto"),
    ):
        if has_setting(cls, choice):
            settings[choice] = value
        elif value != default and (
            choice == "numerics" or (norm.outside is not None and value != "eager")
        ):
            lacking = f"{norm.name} has no choice of {choice}, so leave it {default}"
            readers = ", ".join(name for name in NORMS if has_setting(NORMS[name], choice))
            raise ValueError(f"norm.{choice}={value}: {lacking}; those that have one are {readers}")
    return settings


def _kind(value: object) -> str:
    return (
        "true or false"
        if isinstance(value, bool)
        else "a word"
        if isinstance(value, str)
        else "a number"
    )
