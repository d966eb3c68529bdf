"""From a command line's overrides to an experiment, and from any mistake in them to one line."""

from __future__ import annotations

from collections.abc import Sequence

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from adanorm.config.errors import one_line
from adanorm.config.experiment import Experiment, parse_experiment
from adanorm.config.outside_norms import outside_norms
from adanorm.config.paths import CONF, choices

GROUPS = ("task", "norm", "scale", "preset", "logger")


def prepare_overrides(overrides: Sequence[str]) -> list[str]:
    """Return the overrides with norms of other packages spelled as Hydra can compose them.

    Such a norm is named by its entry point (norm=name) or by its path: norm=package.module:Class, or
    norm.path=package.module:Class, which replaces whatever norm is named beside it. Raises
    ValueError naming the choices where a task, norm, scale or logger does not exist.
    """
    prepared: list[str] = []
    by_path = any(override.startswith("norm.path=") for override in overrides)
    for override in overrides:
        key, _, value = override.partition("=")
        if key == "norm" and by_path:
            continue  # the parameters of a norm of ours are none of another's
        if key == "norm" and ":" in value:
            prepared += ["norm=none", f"norm.path={value}"]
            continue
        if key not in GROUPS or not value:
            prepared.append(override)
            continue
        known = choices(key)
        plugged = outside_norms() if key == "norm" else ["auto"] if key == "scale" else []
        for name in value.split(","):
            if name not in known and name not in plugged:
                raise ValueError(f"unknown {key} {name!r}: choose from {', '.join([*known, *plugged])}")
        if key == "norm" and value in plugged and value not in known:
            prepared += ["norm=none", f"norm.name={value}"]
        else:
            prepared.append(override)
    return ["norm=none", *prepared] if by_path and "norm=none" not in prepared else prepared


def compose_experiment(overrides: Sequence[str]) -> Experiment:
    """Return the experiment of these overrides, each `key=value` in Hydra's syntax.

    Raises ValueError, in one line, for an unknown choice or key and for a value out of range.
    """
    return parse_experiment(compose_config(overrides))


def compose_config(overrides: Sequence[str]) -> DictConfig:
    """Return the configuration of these overrides, not yet checked; raises ValueError as above."""
    prepared = prepare_overrides(overrides)
    try:
        if GlobalHydra.instance().is_initialized():  # inside a Hydra job: leave it as it is
            return compose("run", prepared)
        with initialize_config_dir(str(CONF), version_base="1.3"):
            return compose("run", prepared)
    except (HydraException, OmegaConfBaseException) as error:
        raise ValueError(one_line(error)) from None
