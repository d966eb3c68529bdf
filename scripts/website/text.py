"""Markdown of generated pages."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from typing import Any

Pages = dict[str, str]  # by path from the root of the site's sources
CODE = re.compile(r"(`[^`]*`)")


def plain(text: str) -> str:
    """Return a text of a docstring or comment in which Markdown reads nothing but `code`."""
    parts = CODE.split(text)
    return "".join(
        part if i % 2 else re.sub(r"([\\*_|<>\[\]$])", r"\\\1", part) for i, part in enumerate(parts)
    )


def code(text: str) -> str:
    """Return a text as code in a cell of a table."""
    return f"`{text}`".replace("|", "\\|") if text else ""


def docstring(cls: Any) -> str:
    """Return a docstring in Markdown, its paragraphs as they are."""
    return plain(inspect.getdoc(cls) or "")


def fenced(kind: str, text: str) -> str:
    """Return a block of code."""
    return f"```{kind}\n{text.rstrip()}\n```"


def contents(title: str, lead: str, entries: Sequence[str], options: Sequence[str] = ()) -> str:
    """Return a page that lists others, by their paths from its own folder."""
    tree = "\n".join(["```{toctree}", *(options or [":maxdepth: 1"]), "", *entries, "```"])
    return f"# {title}\n\n{lead}\n\n{tree}\n"
