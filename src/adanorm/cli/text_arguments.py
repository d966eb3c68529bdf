"""Where a command that reads text reads it from and writes it to."""

from __future__ import annotations

from pathlib import Path

from adanorm.cli.command import Arguments, Key

TEXT_KEYS = {"input": Key("a file; default: the standard input"),
             "output": Key("a file; default: the standard output")}  # fmt: skip


def source_of(arguments: Arguments) -> Path | None:
    """Return the input file, None for standard input; raises ValueError where it does not exist."""
    source = Path(arguments.keys["input"]) if arguments.keys["input"] else None
    if source is not None and not source.is_file():
        raise ValueError(f"input={source}: no such file")
    return source
