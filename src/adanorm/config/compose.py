"""From a command line's overrides to an experiment, and from any mistake in them to one line."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from copy import deepcopy
from functools import cache
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.types import OverrideType
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from adanorm.config.errors import one_line
from adanorm.config.experiment import Experiment, parse_experiment
from adanorm.config.outside_norms import outside_norms
from adanorm.config.overrides import parsed, quote_place
from adanorm.config.paths import CONF, choices
from adanorm.config.yaml_file import read_yaml_file

UNTUNED = "task=gaussian"  # a task of which no norm has settings of its own: norms as they come
GROUPS = ("task", "norm", "scale", "preset", "logger", "task_norm", "task_scale")
REQUIRED = {"task", "norm", "scale"}  # choices that every run has
SHARED = {"task", "norm", "scale", "preset"}  # choices that are composed for all norms at once


def prepare_overrides(overrides: Sequence[str]) -> list[str]:
    """Return the overrides spelled as Hydra can compose them.

    A norm of another package is named by its entry point (norm=name) or by its path:
    norm=package.module:Class, or norm.path=package.module:Class, which replaces whatever norm is
    named beside it. Paths get quotes, and parameters that a norm's YAML does not list a `++`.
    Raises ValueError naming the choices where a task, norm, scale, logger or parameter does not exist.
    """
    prepared: list[str] = []
    by_path = any(o.startswith("norm.path=") and o != "norm.path=null" for o in overrides)
    norms = [o.partition("=")[2] for o in overrides if o.startswith("norm=")][-1:]
    own = [":" in name for norm in norms for name in norm.split(",")]
    if any(own) and not all(own):
        raise ValueError(
            f"norm={norms[0]}: norms of the suite and your own are swept one after the other,"
            " not in one sweep"
        )
    sweep = bool({"-m", "--multirun"} & {*overrides})
    for override in overrides:
        key, _, value = override.partition("=")
        group = key.lstrip("+~")
        if group in REQUIRED and (key.startswith("~") or not value):
            raise ValueError(f"{override}: names no {group}; choose from {', '.join(choices(group))}")
        if group in ("task.name", "norm.name") and value not in _plugged(group.partition(".")[0]):
            part = group.partition(".")[0]
            raise ValueError(f"{override}: choose with {part}=NAME; a new one is a file in conf/{part}")
        if key == "norm" and by_path:
            continue  # the parameters of a norm of ours are none of another's
        if key == "norm" and ":" in value:
            prepared += ["norm=none", f"norm.path={value}"]
        elif key == "norm" and value not in choices(key) and value in _plugged(key):
            prepared += ["norm=none", f"norm.name={value}"]
        elif key in GROUPS and value:
            _check_choices(key, value)
            prepared.append(override)
        elif key.startswith("norm.params.") and value:
            outside = by_path or any(norm not in choices("norm") for norm in norms)
            prepared.append(f"++{override}" if outside else _of_a_known_parameter(override, norms))
        else:
            prepared.append(quote_place(override, sweep=sweep))
    return ["norm=none", *prepared] if by_path else prepared


def _plugged(group: str) -> list[str]:
    return outside_norms() if group == "norm" else ["auto"] if group == "scale" else []


def _check_choices(group: str, value: str) -> None:
    known = choices(group)
    for name in value.split(","):
        if name not in known and name not in _plugged(group):  # to look at what is installed takes its time
            module, dot, attribute = name.rpartition(".")
            of_ones_own = (
                f"a norm of your own is norm={module}:{attribute}; " if group == "norm" and dot else ""
            )
            raise ValueError(
                f"unknown {group} {name!r}: {of_ones_own}choose from {', '.join([*known, *_plugged(group)])}"
            )


def _of_a_known_parameter(override: str, norms: Sequence[str]) -> str:
    """Return an override of a norm's parameter as Hydra takes it, whether or not its YAML lists it."""
    key, _, value = override.removeprefix("norm.params.").partition("=")
    for name in (norms or ["layernorm"])[0].split(","):
        listed = read_yaml_file(CONF / "norm" / f"{name}.yaml")["params"] or {}
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
    """Return the configuration of these overrides, not yet checked; raises ValueError as above.

    Hydra composes a choice of files (task=rt scale=mini) once a process, which takes it a tenth of a
    second; settings (training.lr=0.1) are put into a copy of that, as Hydra too puts them in last of all.
    """
    prepared = prepare_overrides(overrides)
    read = [parsed(override) for override in prepared]
    try:
        if GlobalHydra.instance().is_initialized():  # inside a Hydra job: leave it as it is
            return compose("run", prepared)
        if all(map(_is_choice_or_setting, read)):
            with suppress(OmegaConfBaseException):  # Hydra says it better
                return _with_settings(read)
        return _composed(prepared)
    except (HydraException, OmegaConfBaseException) as error:
        chosen = [one.input_line for one in read if one.key_or_group in GROUPS and _is_choice_or_setting(one)]
        raise ValueError(one_line(error, chosen)) from None


def _is_choice_or_setting(override: Any) -> bool:
    """Return whether an override chooses a file of a group or sets a key; nothing is added or removed."""
    key = override.key_or_group
    assigns = override.type == OverrideType.CHANGE and not override.is_sweep_override()
    if not assigns or override.package is not None or "/" in key or key.partition(".")[0] == "hydra":
        return False
    return key not in GROUPS or isinstance(override.value(), str)


def _with_settings(overrides: Sequence[Any]) -> DictConfig:
    chosen = [one for one in overrides if one.key_or_group in GROUPS]
    chosen.sort(key=lambda one: one.key_or_group)  # of one group the last counts
    config = deepcopy(_chosen(tuple(one.input_line for one in chosen)))
    for override in overrides:
        if override.key_or_group not in GROUPS:
            OmegaConf.update(config, override.key_or_group, override.value(), merge=True)
    return config


@cache
def _chosen(chosen: tuple[str, ...]) -> DictConfig:
    """Return the configuration of a choice of files; norms share what is composed beside theirs.

    A norm's file takes the place of that of `none`, where no other file says what these say.
    """
    groups = dict(one.split("=", 1) for one in chosen)
    norm = groups.get("norm", "none")
    own_file = f"{groups.get('task', '')}_{norm}"
    if (
        norm == "none"
        or any(name.endswith(own_file) for name in choices("task_norm"))
        or len(groups) < len(chosen)
        or {*groups} - SHARED
    ):
        return _composed(chosen)
    config = deepcopy(_chosen(tuple("norm=none" if one == f"norm={norm}" else one for one in chosen)))
    none, own = (OmegaConf.load(CONF / "norm" / f"{name}.yaml") for name in ("none", norm))
    if {*none} != {*own} or any(config.norm[key] != value for key, value in none.items()):
        return _composed(chosen)
    config.norm.update(own)
    return config


def _composed(overrides: Sequence[str]) -> DictConfig:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose("run", list(overrides))
