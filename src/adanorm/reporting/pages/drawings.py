"""The figures of the report: files of `make figures`, as parts of one page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

_SHEET = re.compile(r"<defs><style>(.*?)</style>", re.DOTALL)
_LABEL = re.compile(r' xmlns="[^"]*" role="img" aria-label="[^"]*"')


@dataclass(frozen=True)
class Figure:
    """A drawing for the page; `svg` is its text."""

    name: str
    svg: str
    caption: str


def drawn(folder: Path) -> list[Figure]:
    """Return the figures that `make figures` left in a folder, by name."""
    captions = {path: path.with_suffix(".md").read_text("utf-8") for path in sorted(folder.glob("*.svg"))}
    return [
        Figure(path.stem, path.read_text("utf-8"), text.strip().rpartition("\n\n")[2])
        for path, text in captions.items()
    ]


def in_one_page(figures: Sequence[Figure]) -> tuple[list[Figure], str]:
    """Return figures without what a page needs once, and that: the style sheet of all of them.

    A figure is named by its caption, an element with the id `caption-<name>`, and does not repeat it.
    """
    rules = dict.fromkeys(
        rule for figure in figures for sheet in _SHEET.findall(figure.svg) for rule in _rules(sheet)
    )
    bare = [
        replace(
            figure,
            svg=_LABEL.sub(
                f' role="img" aria-labelledby="caption-{figure.name}"',
                _SHEET.sub("<defs>", figure.svg, count=1).replace("<defs></defs>", ""),
                count=1,
            ),
        )
        for figure in figures
    ]
    return bare, "\n".join(f"figure svg {rule}" if rule.startswith("*") else rule for rule in rules)


def _rules(sheet: str) -> list[str]:
    return [f"{rule}}}" for rule in sheet.split("}") if rule.strip()]
