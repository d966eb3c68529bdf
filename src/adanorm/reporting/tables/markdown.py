"""Pieces of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def markdown_row(fields: Sequence[str]) -> str:
    """Return a line of a Markdown table."""
    return f"| {' | '.join(fields)} |"


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table."""
    return [*map(markdown_row, (header, ["---"] * len(header))), *map(markdown_row, rows)]
