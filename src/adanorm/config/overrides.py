"""Overrides `key=value`: their spelling, their choices, and what they may not change in a grid."""

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar

from adanorm.config.data_sections import SPLITS
from adanorm.config.errors import check_known
from adanorm.config.outside_norms import outside_norms
from adanorm.config.paths import choices
from adanorm.config.values import GROUPED, UNGROUPED, read_conf

Overrides = TypeVar("Overrides", bound=Sequence[str])
# Groups with one file per combination.
COMBINATIONS = ("task_norm", "task_scale", "task_norm_scale", "preset_norm")
GROUPS = ("task", "norm", "scale", *COMBINATIONS, "preset", "logger")
REQUIRED = ("task", "norm", "scale")  # groups in which every run has a choice
# What an outside norm is set on: norm=none, without the files that have settings for one norm.
UNSET = ("norm=none", "task_norm=[]", "task_norm_scale=[]", "preset_norm=[]")
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
PLAIN_KEY = re.compile(r"(\+\+)?[a-z_]\w*(\.\w+)*", re.ASCII)
PLAIN_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?(e-?\d+)?", re.ASCII)
BETWEEN_VALUES = re.compile(r"""'[^']*'|"[^"]*"|[\s=,:()\[\]{}]+""")  # with texts in quotes
VANISHING = re.compile(r"(?<![\w.])[-+]?[\d.]*[1-9][\d.]*[eE]-\d+(?![\w.])")
PLAIN_WORD = re.compile(r"[a-z][a-z\d_-]*")
PLAIN_QUOTED = re.compile(r"'[\w.*-]+'", re.ASCII)
PLAIN_PATH = re.compile(r"'[\w./-]+'", re.ASCII)
SCALARS = {"true": True, "false": False, "null": None}
QUOTE_OR_END = re.compile(r"(\\*)('|$)")


def quoted(text: str) -> str:
    """Return a text in quotes, such that Hydra and OmegaConf read back exactly this text."""

    def escaped(match: re.Match[str]) -> str:
        backslashes, character = match.groups()
        return 2 * backslashes + (f"\\{character}" if character else "")

    # Backslashes escape only in front of ${ or a quote, and at the end; there each is doubled.
    inner = re.sub(r"(\\*)(\$\{)", escaped, text)
    return f"'{QUOTE_OR_END.sub(escaped, inner)}'"


def differences(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return one text per command line: its overrides that are not in every line, to be read."""
    common = set.intersection(*map(set, lines)) if len(lines) > 1 else set()
    texts = []
    for line in lines:
        apart = " ".join(text.lstrip("+") for text in line if text not in common)
        texts.append(apart.replace("\\:", ":"))  # an escape of Hydra's grammar for sweeps
    return texts


def prepare_overrides(overrides: Sequence[str]) -> list[str]:
    """Return the overrides in a spelling that Hydra can compose.

    A norm of another package is named by entry point (norm=name) or by path
    (norm=package.module:Class or norm.path=...); a path replaces a norm named beside it. Paths get
    quotes. Parameters that a norm's YAML does not list get a `++`. Raises ValueError, naming the
    choices, for a name that does not exist.
    """
    norms = _norms_in(overrides)
    outside = [norm for norm in norms if ":" in norm]
    if outside and len(outside) < len(norms):
        names = ",".join(norms)
        message = f"norm={names}: sweep norms of the suite and norms of your own separately"
        raise ValueError(message)
    by_path = any(text.startswith("norm.path=") and text != "norm.path=null" for text in overrides)
    is_sweep = "-m" in overrides or "--multirun" in overrides
    prepared = [*UNSET] if by_path else []
    for override in overrides:
        key, _, value = override.partition("=")
        _check_named(override)
        if by_path and (key == "norm" or override in UNSET):
            continue  # the norm at the path replaces it
        if key == "norm" and ":" in value:
            prepared += [*UNSET, _with_quotes(f"norm.path={value}", is_sweep=is_sweep)]
        elif key == "norm" and value not in choices(key) and value in outside_norms():
            prepared += [*UNSET, f"norm.name={value}"]
        elif key in GROUPS and value:
            if not (value == "[]" and key in COMBINATIONS):
                for name in value.split(","):
                    _check_choice(key, name)
            prepared.append(override)
        elif key.startswith("norm.params.") and value:
            is_listed = not by_path and _is_listed(override, norms)
            prepared.append(override if is_listed else f"++{override}")
        else:
            prepared.append(_with_quotes(override, is_sweep=is_sweep))
    return prepared


def _norms_in(overrides: Sequence[str]) -> list[str]:
    """Return the norms that the last override `norm=a,b` names."""
    names = "layernorm"
    for override in overrides:
        if override.startswith("norm="):
            names = override.removeprefix("norm=")
    return names.split(",")


def _check_named(override: str) -> None:
    """Raise ValueError for an override that removes a choice, or sets a task's or norm's name."""
    key, _, value = override.partition("=")
    group, _, name = key.lstrip("+~").partition(".")
    if not name and group in REQUIRED and (key.startswith("~") or not value):
        names = ", ".join(_all_choices(group))
        raise ValueError(f"{override}: names no {group}; choose from {names}")
    if name == "name" and group in ("task", "norm"):
        is_outside = group == "norm" and value in outside_norms()
        if not is_outside:
            raise ValueError(
                f"{override}: choose with {group}=NAME; a new one is a file in conf/{group}"
            )


def _all_choices(group: str) -> list[str]:
    """Return the files of a group, and what it takes besides.

    Listing installed packages is slow.
    """
    names = choices(group)
    if group == "norm":
        names += outside_norms()
    if group == "scale":
        names.append("auto")
    return names


def _check_choice(group: str, name: str) -> None:
    """Raise ValueError for a name that is no choice of a group."""
    if name in choices(group):
        return
    hint = ""
    if group == "norm" and "." in name:
        module, _, attribute = name.rpartition(".")
        hint = f"; a norm of your own is norm={module}:{attribute}"
    check_known(group, [name], _all_choices(group), hint)


def _is_listed(override: str, norms: Sequence[str]) -> bool:
    """Return whether the YAML of one of the norms lists the parameter.

    Raises ValueError if one of the norms does not take it.
    """
    if any(norm not in choices("norm") for norm in norms):
        return False
    key, _, value = override.removeprefix("norm.params.").partition("=")
    if any(key in (read_conf(f"norm/{norm}").get("params") or {}) for norm in norms):
        return True
    from adanorm.norms.base import parameters_of, takes
    from adanorm.norms.registry import NORMS

    for norm in norms:
        if key not in parameters_of(NORMS[norm]):
            hint = takes(NORMS[norm], key)
            raise ValueError(f"norm.params.{key}={value}: {norm} has no such parameter; {hint}")
    return False


def _with_quotes(override: str, *, is_sweep: bool) -> str:
    """Return the override with its paths, if any, in quotes: 2024 and ü.txt stay text."""
    key, equals, value = override.partition("=")
    is_path = key.lstrip("+") in LOCATIONS or (key == "norm.path" and not value.isascii())
    if not is_path or not equals or value[:1] in ("'", '"', "["):
        return override
    texts = []
    for text in value.split(",") if is_sweep else [value]:
        is_named = text not in ("", "null")
        texts.append(quoted(os.path.expanduser(text)) if is_named else text)
    return f"{key}={','.join(texts)}"


def parse_override(override: str) -> Any:
    """Return an override as Hydra parses it.

    Raises ValueError, in one line, if Hydra cannot, or reads 1_000 as a number.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        parsed = OverridesParser.create().parse_override(override)
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
    is_text = isinstance(parsed.value(), str)
    if not is_text and any(map(GROUPED.match, BETWEEN_VALUES.split(override))):
        raise ValueError(f"{override}: {UNGROUPED}")
    return parsed


@cache
def plain_value(override: str) -> Any:
    """Return the plain value that an override gives its key.

    Raises LookupError for an override that does more, such as a sweep.
    """
    key, _, text = override.partition("=")
    if not PLAIN_KEY.fullmatch(key) or "${" in text:
        raise LookupError(key)
    for number in VANISHING.findall(text):
        if not float(number):
            raise ValueError(f"{key}={number}: is 0 or infinite in single precision")
    with suppress(LookupError):
        return _read_plain(text)
    parsed = parse_override(override)  # slow: importing Hydra's grammar takes half a second
    if parsed.is_sweep_override():
        raise LookupError(key)
    return parsed.value()


def _read_plain(text: str) -> Any:
    """Return the value of plain text: a scalar, or a list or mapping of scalars.

    Raises LookupError for other text.
    """
    brackets = text[:1] + text[-1:]
    entries = text[1:-1].split(", ")
    if brackets == "[]":
        return [*map(_read_scalar, entries)]
    if brackets == "{}":
        mapping = {}
        for entry in entries:
            key, _, value = entry.partition(": ")
            mapping[_read_scalar(key)] = _read_scalar(value)
        return mapping
    return text[1:-1] if PLAIN_PATH.fullmatch(text) else _read_scalar(text)


def _read_scalar(text: str) -> Any:
    if text in SCALARS:
        return SCALARS[text]
    if PLAIN_NUMBER.fullmatch(text):
        return float(text) if "." in text or "e" in text else int(text)
    if PLAIN_WORD.fullmatch(text) and text not in ("nan", "inf"):
        return text
    if PLAIN_QUOTED.fullmatch(text):
        return text[1:-1]
    raise LookupError(text)


def check_each_once(overrides: Overrides) -> Overrides:
    """Return the overrides unchanged; raises ValueError if a key is given twice."""
    keys = set()
    for override in overrides:
        key, equals, _ = override.lstrip("+").partition("=")
        if equals and key in keys:
            raise ValueError(f"{key} is given twice")
        if equals:
            keys.add(key)
    return overrides


def check_fixed(overrides: Overrides) -> Overrides:
    """Return the overrides of a grid; ValueError for one that could move a run to another cell."""
    for override in overrides:
        if "${" in override:
            raise ValueError(f"{override}: may not refer to another setting: write its value")
        try:
            plain_value(override)
            keys = [override.partition("=")[0].lstrip("+")]
        except LookupError:
            parsed = parse_override(override)
            keys = [parsed.key_or_group, parsed.package or ""]
        for key in keys:
            if key in FIXED or key.partition(".")[0] in FIXED_WITHIN:
                raise ValueError(f"{override}: may not change the {key} of a run: the grid sets it")
    return overrides


def swept(override: str) -> list[str]:
    """Return the overrides, one per value, that a sweep makes of one override."""
    sweep = parse_override(override)
    if not sweep.is_sweep_override():
        return [override]
    return [f"{sweep.get_key_element()}={value}" for value in sweep.sweep_string_iterator()]
