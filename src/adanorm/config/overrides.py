"""Overrides `key=value`: spelled as Hydra's grammar asks for; what they may not change in a grid."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from adanorm.config.user_files import SPLITS

PLACES = ("runs", *(f"data.{name}" for name in ("cache", "mirror", "path", "vectors", *SPLITS)))
# What a cell of a grid is: overrides of its runs that change one of these make it another.
FIXED = ("task", "norm", "seed", "scale", "runs", "task_norm", "task_scale", "hydra", "updates")
_NAMES = ("task.name", "task.kind", "norm.name", "norm.path")


def quoted(text: str) -> str:
    """Return a text in quotes that Hydra's grammar and OmegaConf read as this very text."""
    text = re.sub(r"(\\*)\$\{", lambda found: 2 * found[1] + r"\${", text)
    # Backslashes count only in front of a quote: there, and at the end, each is doubled.
    escaped = re.sub(r"(\\*)('|$)", lambda found: 2 * found[1] + found[2].replace("'", r"\'"), text)
    return f"'{escaped}'"


def assigned(key: str, value: str) -> str:
    """Return the override that sets a key to a text, whatever characters it has."""
    return f"{key}={quoted(value)}"


def quote_place(override: str, *, sweep: bool) -> str:
    """Return an override of a path in quotes, as 2024 and ü.txt are names too; any other as it is.

    In a sweep a comma stands between paths.
    """
    key, equals, value = override.partition("=")
    if key.lstrip("+") not in PLACES or not equals or value[:1] in ("'", '"', "["):
        return override
    values = value.split(",") if sweep else [value]
    return f"{key}={','.join(part if part in ('', 'null') else quoted(part) for part in values)}"


def parsed(override: str) -> Any:
    """Return Hydra's reading of an override; raises ValueError, in one line, where it cannot be read."""
    try:
        (read,) = OverridesParser.create().parse_overrides([override])
    except HydraException as error:
        key, equals, value = override.partition("=")
        if not equals:
            hint = "write settings as key=value"
        elif re.fullmatch(r"[+~]*[\w./@$-]+", key, re.ASCII):
            hint = f'a value of other characters stands in quotes: "{assigned(key, value)}"'
        else:
            hint = f"{key!r} is no key"
        raise ValueError(f"{override}: cannot be read; {hint}") from error
    return read


def check_fixed(overrides: Sequence[str]) -> None:
    """Raise ValueError for an override, in any spelling, of what tells the cells of a grid apart.

    Nor may one refer to another setting, such as the seed: the runs of a cell differ in their seed alone.
    """
    for override in overrides:
        read = parsed(override)
        if "${" in override:
            raise ValueError(f"{override}: may not refer to another setting: write its value")
        for key in (read.key_or_group, read.package or ""):
            if key.partition(".")[0] == "hydra" or key in (*FIXED, *_NAMES):
                raise ValueError(f"{override}: may not change the {key} of a run: the grid says it")
