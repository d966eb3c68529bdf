"""What a shell completes, through argcomplete: commands, names, keys, and the choices of a key."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

import argcomplete

from adanorm.cli.command import COMMANDS, OTHER_NAMES, Usage

GROUPS = {"task": "task", "norm": "norm", "scale": "scale", "preset": "preset", "logger": "logger",
          "launcher": "launcher"}  # fmt: skip


def complete() -> None:
    """Answer the shell and end the process."""
    parser = argparse.ArgumentParser(prog="adanorm")
    parser.add_argument("command", choices=[*COMMANDS, *OTHER_NAMES])
    rest = parser.add_argument("rest", nargs="*")
    rest.completer = _rest  # type: ignore[attr-defined]
    argcomplete.autocomplete(parser, always_complete_options=False)


def _rest(prefix: str, parsed_args: argparse.Namespace, **_: object) -> list[str]:
    """Return what may come next on the command line, all of it; argcomplete keeps what fits."""
    from adanorm.config.paths import choices

    command = OTHER_NAMES.get(parsed_args.command, parsed_args.command)
    key, equals, value = prefix.partition("=")
    if equals and key in GROUPS:
        before = value.rpartition(",")[0]
        start = f"{key}={before}," if before else f"{key}="
        return [f"{start}{choice}" for choice in choices(GROUPS[key])]
    if equals and key in ("input", "output", "runs"):
        folder = Path(value).parent if value and not value.endswith("/") else Path(value or ".")
        return [f"{key}={path}" for path in sorted(folder.glob("*"))]
    module = importlib.import_module(f"adanorm.cli.{command.replace('-', '_')}")
    usage: Usage = module.USAGE
    groups = [f"{group}=" for group in GROUPS if group != "launcher"] if usage.settings else []
    return [*usage.choices(), *(f"{key}=" for key in usage.keys), *groups]
