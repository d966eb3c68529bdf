"""From a command line's overrides to an experiment, and from any mistake in them to one line."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import NoReturn

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException, MissingConfigException
from omegaconf.errors import OmegaConfBaseException

from adanorm.config import CONF, Experiment, choices, parse

GROUPS = ("task", "norm", "scale", "preset", "logger")


def outside_norms() -> list[str]:
    """Return the names of norms that installed packages offer as entry points, sorted."""
    return sorted(point.name for point in entry_points(group="adanorm.norms"))


def prepare(overrides: Sequence[str]) -> list[str]:
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


def experiment(overrides: Sequence[str]) -> Experiment:
    """Return the experiment of these overrides, each `key=value` in Hydra's syntax.

    Raises ValueError, in one line, for an unknown choice or key and for a value out of range.
    """
    prepared = prepare(overrides)
    try:
        if GlobalHydra.instance().is_initialized():  # inside a Hydra job: leave it as it is
            return parse(compose("run", prepared))
        with initialize_config_dir(str(CONF), version_base="1.3"):
            return parse(compose("run", prepared))
    except (HydraException, OmegaConfBaseException) as error:
        raise ValueError(one_line(error)) from None


def one_line(error: Exception) -> str:
    """Return an error of Hydra, OmegaConf or our own as one line that names the thing."""
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        return f"no configuration {error.missing_cfg_file}: choose from {', '.join(error.options or [])}"
    cause = error.__cause__ or error
    text = str(cause if str(cause) else error)
    unknown = re.search(r"Key '([^']+)' (?:is )?not in \S+\s+full_key: (\S+)", text)
    if unknown:
        return f"unknown key {unknown[2]!r}{_suggestion(unknown[2])}"
    return " ".join(text.split())


def _suggestion(key: str) -> str:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config = compose("run")
    known: list[str] = []

    def collect(prefix: str, node: object) -> None:
        if hasattr(node, "items"):
            for name, child in node.items():
                known.append(f"{prefix}{name}")
                collect(f"{prefix}{name}.", child)

    collect("", config)
    close = get_close_matches(key, known, n=3)
    hint = f"did you mean {', '.join(close)}? " if close else ""
    return f": {hint}`python -m adanorm.run --cfg job` shows every key"


class Parser(argparse.ArgumentParser):
    """A parser whose complaints go through the door: one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        """Raise ValueError with the complaint."""
        raise ValueError(message)


def own_keys(arguments: Sequence[str], defaults: dict[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return a command's own `key=value` arguments, over their defaults, and the run's overrides."""
    given, overrides = dict(defaults), []
    for argument in arguments:
        key, _, value = argument.partition("=")
        if key in given:
            given[key] = value
        else:
            overrides.append(argument)
    return given, overrides


def door(main: Callable[[], int | None]) -> NoReturn:
    """Run a command; the user's mistakes, a full disk among them, end it with one line and code 2."""
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises instead of printing and leaving with 1
    try:
        raise SystemExit(main())
    except (ValueError, HydraException, OmegaConfBaseException, OSError) as error:
        if os.environ.get("RANK", "0") == "0":  # of several processes one speaks
            print(f"error: {one_line(error)}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        print("interrupted: the next start goes on from the last checkpoint", file=sys.stderr)
        raise SystemExit(130) from None
