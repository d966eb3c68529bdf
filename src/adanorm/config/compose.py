"""From a command line's overrides to an experiment, and from any mistake in them to one line."""

from __future__ import annotations

from collections.abc import Sequence

import yaml
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from adanorm.config.errors import one_line
from adanorm.config.experiment import Experiment, parse_experiment
from adanorm.config.outside_norms import outside_norms
from adanorm.config.overrides import parsed, quote_place
from adanorm.config.paths import CONF, choices

GROUPS = ("task", "norm", "scale", "preset", "logger", "task_norm", "task_scale")


def prepare_overrides(overrides: Sequence[str]) -> list[str]:
    """Return the overrides spelled as Hydra can compose them.

    A norm of another package is named by its entry point (norm=name) or by its path:
    norm=package.module:Class, or norm.path=package.module:Class, which replaces whatever norm is
    named beside it. Paths get quotes, and parameters that a norm's YAML does not list a `++`.
    Raises ValueError naming the choices where a task, norm, scale, logger or parameter does not exist.
    """
    prepared: list[str] = []
    by_path = any(override.startswith("norm.path=") for override in overrides)
    norms = [o.partition("=")[2] for o in overrides if o.startswith("norm=")][-1:]
    sweep = bool({"-m", "--multirun"} & {*overrides})
    for override in overrides:
        key, _, value = override.partition("=")
        if key.lstrip("+~") == "task.name":
            raise ValueError(f"{override}: choose with task=NAME; a new one is a file in conf/task")
        if key == "norm" and by_path:
            continue  # the parameters of a norm of ours are none of another's
        if key == "norm" and ":" in value:
            prepared += ["norm=none", f"norm.path={value}"]
        elif key == "norm" and value in _plugged(key) and value not in choices(key):
            prepared += ["norm=none", f"norm.name={value}"]
        elif key in GROUPS and value:
            _check_choices(key, value)
            prepared.append(override)
        elif key.startswith("norm.params.") and value:
            outside = by_path or any(":" in norm or norm not in choices("norm") for norm in norms)
            prepared.append(f"++{override}" if outside else _of_a_known_parameter(override, norms))
        else:
            prepared.append(quote_place(override, sweep=sweep))
    return ["norm=none", *prepared] if by_path and "norm=none" not in prepared else prepared


def _plugged(group: str) -> list[str]:
    return outside_norms() if group == "norm" else ["auto"] if group == "scale" else []


def _check_choices(group: str, value: str) -> None:
    known = [*choices(group), *_plugged(group)]
    for name in value.split(","):
        if name not in known:
            module, dot, attribute = name.rpartition(".")
            of_ones_own = (
                f"a norm of your own is norm={module}:{attribute}; " if group == "norm" and dot else ""
            )
            raise ValueError(f"unknown {group} {name!r}: {of_ones_own}choose from {', '.join(known)}")


def _of_a_known_parameter(override: str, norms: Sequence[str]) -> str:
    """Return an override of a norm's parameter as Hydra takes it, whether or not its YAML lists it."""
    key, _, value = override.removeprefix("norm.params.").partition("=")
    for name in (norms or ["layernorm"])[0].split(","):
        listed = yaml.safe_load((CONF / "norm" / f"{name}.yaml").read_text("utf-8"))["params"] or {}
        if key in listed:
            return override
    from adanorm.norms.registry import parameters_of

    for name in (norms or ["layernorm"])[0].split(","):
        takes = parameters_of(name)
        if key not in takes:
            known = f"it takes {', '.join(takes)}" if takes else "it takes none"
            raise ValueError(f"norm.params.{key}={value}: {name} has no such parameter; {known}")
    return f"++{override}"


def compose_experiment(overrides: Sequence[str]) -> Experiment:
    """Return the experiment of these overrides, each `key=value` in Hydra's syntax.

    Raises ValueError, in one line, for an unknown choice or key and for a value out of range.
    """
    return parse_experiment(compose_config(overrides))


def compose_config(overrides: Sequence[str]) -> DictConfig:
    """Return the configuration of these overrides, not yet checked; raises ValueError as above."""
    prepared = prepare_overrides(overrides)
    for override in prepared:
        parsed(override)
    try:
        if GlobalHydra.instance().is_initialized():  # inside a Hydra job: leave it as it is
            return compose("run", prepared)
        with initialize_config_dir(str(CONF), version_base="1.3"):
            return compose("run", prepared)
    except (HydraException, OmegaConfBaseException) as error:
        raise ValueError(one_line(error)) from None
