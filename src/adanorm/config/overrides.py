"""Overrides `key=value`: how they are written, what they may name, what they may not change in a grid."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar

from adanorm.config.data_sections import SPLITS
from adanorm.config.errors import check_known
from adanorm.config.outside_norms import outside_norms
from adanorm.config.paths import CONF, choices
from adanorm.config.yaml_file import read_yaml_file

OF_SEVERAL = ("task_norm", "task_scale", "task_norm_scale")  # groups whose files are of a task with others
GROUPS = ("task", "norm", "scale", *OF_SEVERAL, "preset", "logger")
REQUIRED = ("task", "norm", "scale")  # choices that every run has
PLACES = ("runs", *(f"data.{name}" for name in ("cache", "mirror", "path", "vectors", *SPLITS)))
# What tells the cells of a grid apart: an override of one of these would make it another cell, or have its
# numbers mean what no table says of them.
FIXED = ("task", "norm", "seed", "scale", "runs", *OF_SEVERAL, "updates", "norm.name", "norm.path")
FIXED_WITHIN = ("task", "hydra")  # sections in which nothing may change
# Settings that leave the cells of a grid as they are, in a spelling that has one reading.
SETTING = r"((data|model|training|decoding|segments|norm\.(params|placement|numerics))[\w.]*|preset)=[\w.-]+"
Given = TypeVar("Given", bound=Sequence[str])
_SCALARS = {"true": True, "false": False, "null": None}


def quoted(text: str) -> str:
    """Return any text in quotes that Hydra's grammar and OmegaConf read as this very text."""
    text = re.sub(r"(\\*)\$\{", lambda match: 2 * match[1] + r"\${", text)
    # Backslashes count only in front of a quote: there, and at the end, each is doubled.
    escaped = re.sub(r"(\\*)('|$)", lambda match: 2 * match[1] + match[2].replace("'", r"\'"), text)
    return f"'{escaped}'"


def check_each_once(overrides: Given) -> Given:
    """Return overrides as they are; raises ValueError where a key is given twice."""
    keys = [key.lstrip("+") for key, equals, _ in (text.partition("=") for text in overrides) if equals]
    if twice := next((key for key in keys if keys.count(key) > 1), None):
        raise ValueError(f"{twice} is given twice")
    return overrides


def differences(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return for each command line the overrides that not all of them have, in short."""
    common = set.intersection(*map(set, lines)) if len(lines) > 1 else set()
    return [" ".join(text.lstrip("+") for text in line if text not in common) for line in lines]


def prepare_overrides(overrides: Sequence[str]) -> list[str]:
    """Return the overrides spelled as Hydra can compose them.

    A norm of another package is named by its entry point (norm=name) or its path, norm=package.module:Class
    or norm.path=..., which replaces whatever norm is named beside it. Paths get quotes, and parameters that a
    norm's YAML does not list a `++`. Raises ValueError, naming the choices, for what does not exist.
    """
    norms = [text.partition("=")[2] for text in overrides if text.startswith("norm=")][-1:]
    norms = norms[0].split(",") if norms else ["layernorm"]
    if 0 < sum(":" in norm for norm in norms) < len(norms):
        raise ValueError(f"norm={','.join(norms)}: sweep norms of the suite and norms of your own separately")
    by_path = any(text.startswith("norm.path=") and text != "norm.path=null" for text in overrides)
    is_sweep = bool({"-m", "--multirun"} & {*overrides})
    # What another package's norm is put in the place of, without the settings that files have for it.
    unset = ["norm=none", *(f"{group}=[]" for group in OF_SEVERAL if "norm" in group)]
    prepared = [*unset] if by_path else []
    for override in overrides:
        key, _, value = override.partition("=")
        _check_named(override)
        if by_path and (key == "norm" or override in unset):
            continue  # the parameters of a norm of ours are none of another's
        if key == "norm" and ":" in value:
            prepared += [*unset, _with_quotes(f"norm.path={value}", is_sweep=is_sweep)]
        elif key == "norm" and value not in choices(key) and value in outside_norms():
            prepared += [*unset, f"norm.name={value}"]
        elif key in GROUPS and value:
            for name in value.split(",") if value != "[]" or key not in OF_SEVERAL else ():
                _check_choice(key, name)
            prepared.append(override)
        elif key.startswith("norm.params.") and value:
            prepared.append(override if not by_path and _is_listed(override, norms) else f"++{override}")
        else:
            prepared.append(_with_quotes(override, is_sweep=is_sweep))
    return prepared


def _check_named(override: str) -> None:
    """Raise ValueError for an override that takes a choice away, or names by its key what is chosen."""
    key, _, value = override.partition("=")
    group, _, name = key.lstrip("+~").partition(".")
    if not name and group in REQUIRED and (key.startswith("~") or not value):
        known = [*choices(group), *_plugged(group)]
        raise ValueError(f"{override}: names no {group}; choose from {', '.join(known)}")
    if name == "name" and group in ("task", "norm") and value not in _plugged(group):
        raise ValueError(f"{override}: choose with {group}=NAME; a new one is a file in conf/{group}")


def _plugged(group: str) -> list[str]:
    return outside_norms() if group == "norm" else ["auto"] if group == "scale" else []


def _check_choice(group: str, name: str) -> None:
    if name not in choices(group):  # to look at what is installed takes its time
        module, dot, attribute = name.rpartition(".")
        own = f"; a norm of your own is norm={module}:{attribute}" if group == "norm" and dot else ""
        check_known(group, [name], [*choices(group), *_plugged(group)], own)


def _is_listed(override: str, norms: Sequence[str]) -> bool:
    """Return whether the YAML of one of these norms lists a parameter; ValueError if one has no such."""
    if any(norm not in choices("norm") for norm in norms):
        return False
    key, _, value = override.removeprefix("norm.params.").partition("=")
    if any(key in (read_yaml_file(CONF / "norm" / f"{norm}.yaml").get("params") or {}) for norm in norms):
        return True
    from adanorm.norms.registry import NORMS, parameters_of

    for norm in norms:
        if key not in (takes := parameters_of(NORMS[norm])):
            known = f"it takes {', '.join(takes)}" if takes else "it takes none"
            raise ValueError(f"norm.params.{key}={value}: {norm} has no such parameter; {known}")
    return False


def _with_quotes(override: str, *, is_sweep: bool) -> str:
    """Return an override of a path, or of a sweep's paths, in quotes, as 2024 and ü.txt are names too."""
    key, equals, value = override.partition("=")
    is_free = key.lstrip("+") in PLACES or (key == "norm.path" and not value.isascii())
    if not is_free or not equals or value[:1] in ("'", '"', "["):
        return override
    values = value.split(",") if is_sweep else [value]
    return f"{key}={','.join(part if part in ('', 'null') else quoted(part) for part in values)}"


def parsed(override: str) -> Any:
    """Return an override as Hydra parses it; raises ValueError, in one line, where it cannot be read."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        return OverridesParser.create().parse_override(override)
    except HydraException as error:
        key, equals, value = override.partition("=")
        if not equals:
            hint = "write settings as key=value"
        elif key in ("seed", "seeds"):
            hint = "write whole numbers, such as 1,2,3"
        elif re.fullmatch(r"[+~]*[\w./@$-]+", key, re.ASCII):
            hint = f'a value of other characters stands in quotes: "{key}={quoted(value)}"'
        else:
            hint = f"{key!r} is no key"
        raise ValueError(f"{override}: cannot be read; {hint}") from error


@cache
def plain_value(override: str) -> Any:
    """Return the value that an override sets its key to, in plain values.

    Raises LookupError where it does more than that, such as a sweep. Hydra's grammar is asked only where
    the value is no plain number or word.
    """
    key, _, text = override.partition("=")
    if not re.fullmatch(r"(\+\+)?[a-z_]\w*(\.\w+)*", key, re.ASCII) or "${" in text:
        raise LookupError(key)
    if text in _SCALARS:
        return _SCALARS[text]
    if re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?(e-?\d+)?", text, re.ASCII):
        return float(text) if {".", "e"} & {*text} else int(text)
    if re.fullmatch(r"[a-z][a-z\d_-]*", text) and text not in ("nan", "inf"):
        return text
    reading = parsed(override)
    if reading.is_sweep_override():
        raise LookupError(key)
    return reading.value()


def check_fixed(overrides: Given) -> Given:
    """Return overrides; ValueError for one, in any spelling, that may make a run another cell's."""
    for override in overrides:
        if "${" in override:
            raise ValueError(f"{override}: may not refer to another setting: write its value")
        if re.fullmatch(SETTING, override, re.ASCII):
            continue
        reading = parsed(override)
        for key in (reading.key_or_group, reading.package or ""):
            if key.partition(".")[0] in FIXED_WITHIN or key in FIXED:
                raise ValueError(f"{override}: may not change the {key} of a run: the grid sets it")
    return overrides
