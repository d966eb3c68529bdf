"""Pieces of Markdown."""

from __future__ import annotations

from collections.abc import Sequence


def markdown_row(fields: Sequence[str]) -> str:
    """Return a line of a Markdown table."""
    return f"| {' | '.join(fields)} |"
