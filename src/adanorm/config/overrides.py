"""Overrides `key=value`: their spelling, the names they may choose, what they may not change in a grid."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar

from adanorm.config.data_sections import SPLITS
from adanorm.config.errors import check_known
from adanorm.config.outside_norms import outside_norms
from adanorm.config.paths import CONF, choices
from adanorm.config.yaml_file import read_yaml_file

COMBINATIONS = (
    "task_norm",
    "task_scale",
    "task_norm_scale",
)  # groups with one file per combination
GROUPS = ("task", "norm", "scale", *COMBINATIONS, "preset", "logger")
REQUIRED = ("task", "norm", "scale")  # groups in which every run has a choice
LOCATIONS = ("runs", *(f"data.{name}" for name in ("cache", "mirror", "path", "vectors", *SPLITS)))
# Settings that no override of a grid may change: it would turn a cell into another, or give it
# numbers that no table explains.
FIXED = (
    "task",
    "norm",
    "seed",
    "scale",
    "runs",
    *COMBINATIONS,
    "updates",
    "norm.name",
    "norm.path",
)
FIXED_WITHIN = ("task", "hydra")  # sections in which a grid allows no override
# Overrides that leave a grid's cells as they are, in a spelling that needs no parsing.
SETTING = r"((data|model|training|decoding|segments|norm\.(params|placement|numerics))[\w.]*|preset)=[\w.-]+"
Overrides = TypeVar("Overrides", bound=Sequence[str])
_SCALARS = {"true": True, "false": False, "null": None}


def quoted(text: str) -> str:
    """Return a text in quotes, such that Hydra's grammar and OmegaConf read back exactly this text."""
    text = re.sub(r"(\\*)\$\{", lambda match: 2 * match[1] + r"\${", text)
    # Backslashes escape only in front of a quote. Each is doubled there, and at the end of the
    # text.
    escaped = re.sub(r"(\\*)('|$)", lambda match: 2 * match[1] + match[2].replace("'", r"\'"), text)
    return f"'{escaped}'"


def check_each_once(overrides: Overrides) -> Overrides:
    """Return the overrides unchanged; raises ValueError if a key is given twice."""
    keys = [
        key.lstrip("+") for key, equals, _ in (text.partition("=") for text in overrides) if equals
    ]
    if duplicate := next((key for key in keys if keys.count(key) > 1), None):
        raise ValueError(f"{duplicate} is given twice")
    return overrides


def differences(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return one text per command line: its overrides that are not in every line, without a leading `+`."""
    common = set.intersection(*map(set, lines)) if len(lines) > 1 else set()
    return [" ".join(text.lstrip("+") for text in line if text not in common) for line in lines]


def prepare_overrides(overrides: Sequence[str]) -> list[str]:
    """Return the overrides in a spelling that Hydra can compose.

    A norm of another package is named by entry point (norm=name) or by path
    (norm=package.module:Class or norm.path=...); a path replaces a norm named beside it. Paths get
    quotes. Parameters that a norm's YAML does not list get a `++`. Raises ValueError, naming the
    choices, for a name that does not exist.
    """
    norms = [text.partition("=")[2] for text in overrides if text.startswith("norm=")][-1:]
    norms = norms[0].split(",") if norms else ["layernorm"]
    if 0 < sum(":" in norm for norm in norms) < len(norms):
        raise ValueError(
            f"norm={','.join(norms)}: sweep norms of the suite and norms of your own separately"
        )
    by_path = any(text.startswith("norm.path=") and text != "norm.path=null" for text in overrides)
    is_sweep = bool({"-m", "--multirun"} & {*overrides})
    # What an outside norm is set on: norm=none, without the files that have settings for one norm.
    unset = ["norm=none", *(f"{group}=[]" for group in COMBINATIONS if "norm" in group)]
    prepared = [*unset] if by_path else []
    for override in overrides:
        key, _, value = override.partition("=")
        _check_named(override)
        if by_path and (key == "norm" or override in unset):
            continue  # the norm at the path replaces it
        if key == "norm" and ":" in value:
            prepared += [*unset, _with_quotes(f"norm.path={value}", is_sweep=is_sweep)]
        elif key == "norm" and value not in choices(key) and value in outside_norms():
            prepared += [*unset, f"norm.name={value}"]
        elif key in GROUPS and value:
            for name in value.split(",") if value != "[]" or key not in COMBINATIONS else ():
                _check_choice(key, name)
            prepared.append(override)
        elif key.startswith("norm.params.") and value:
            prepared.append(
                override if not by_path and _is_listed(override, norms) else f"++{override}"
            )
        else:
            prepared.append(_with_quotes(override, is_sweep=is_sweep))
    return prepared


def _check_named(override: str) -> None:
    """Raise ValueError for an override that removes a required choice, or sets task.name or norm.name."""
    key, _, value = override.partition("=")
    group, _, name = key.lstrip("+~").partition(".")
    if not name and group in REQUIRED and (key.startswith("~") or not value):
        names = [*choices(group), *_further_choices(group)]
        raise ValueError(f"{override}: names no {group}; choose from {', '.join(names)}")
    if name == "name" and group in ("task", "norm") and value not in _further_choices(group):
        raise ValueError(
            f"{override}: choose with {group}=NAME; a new one is a file in conf/{group}"
        )


def _further_choices(group: str) -> list[str]:
    return outside_norms() if group == "norm" else ["auto"] if group == "scale" else []


def _check_choice(group: str, name: str) -> None:
    if name not in choices(group):  # checked first: listing installed packages is slow
        module, dot, attribute = name.rpartition(".")
        hint = (
            f"; a norm of your own is norm={module}:{attribute}" if group == "norm" and dot else ""
        )
        check_known(group, [name], [*choices(group), *_further_choices(group)], hint)


def _is_listed(override: str, norms: Sequence[str]) -> bool:
    """Return whether a norm's YAML lists the parameter; ValueError if one of the norms does not take it."""
    if any(norm not in choices("norm") for norm in norms):
        return False
    key, _, value = override.removeprefix("norm.params.").partition("=")
    if any(
        key in (read_yaml_file(CONF / "norm" / f"{norm}.yaml").get("params") or {})
        for norm in norms
    ):
        return True
    from adanorm.norms.registry import NORMS, parameters_of

    for norm in norms:
        if key not in (parameters := parameters_of(NORMS[norm])):
            hint = f"it takes {', '.join(parameters)}" if parameters else "it takes none"
            raise ValueError(f"norm.params.{key}={value}: {norm} has no such parameter; {hint}")
    return False


def _with_quotes(override: str, *, is_sweep: bool) -> str:
    """Return the override with its paths, if any, in quotes: names such as 2024 and ü.txt stay text."""
    key, equals, value = override.partition("=")
    is_path = key.lstrip("+") in LOCATIONS or (key == "norm.path" and not value.isascii())
    if not is_path or not equals or value[:1] in ("'", '"', "["):
        return override
    values = value.split(",") if is_sweep else [value]
    return f"{key}={','.join(part if part in ('', 'null') else quoted(part) for part in values)}"


def parse_override(override: str) -> Any:
    """Return an override as Hydra parses it; raises ValueError, in one line, if Hydra cannot."""
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
            hint = f'write a value with other characters in quotes: "{key}={quoted(value)}"'
        else:
            hint = f"{key!r} is not a key"
        raise ValueError(f"{override}: cannot be read; {hint}") from error


@cache
def plain_value(override: str) -> Any:
    """Return the plain value that an override gives its key.

    Raises LookupError for an override that does more, such as a sweep.
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
    parsed_override = parse_override(override)  # slow: only if it is no plain number or word
    if parsed_override.is_sweep_override():
        raise LookupError(key)
    return parsed_override.value()


def check_fixed(overrides: Overrides) -> Overrides:
    """Return the overrides; raises ValueError for one that could move a run to another cell of a grid."""
    for override in overrides:
        if "${" in override:
            raise ValueError(f"{override}: may not refer to another setting: write its value")
        if re.fullmatch(SETTING, override, re.ASCII):
            continue
        parsed_override = parse_override(override)
        for key in (parsed_override.key_or_group, parsed_override.package or ""):
            if key.partition(".")[0] in FIXED_WITHIN or key in FIXED:
                raise ValueError(f"{override}: may not change the {key} of a run: the grid sets it")
    return overrides
