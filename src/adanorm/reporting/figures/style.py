"""How figures look, and how they become files: the same records give the same bytes on any machine."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from adanorm.files import write_whole

if TYPE_CHECKING:  # matplotlib takes a second to import
    from matplotlib.figure import Figure

WIDTH = 3.3  # inches: a column of a two-column page
PIXELS_PER_INCH = 200
STYLE = {
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "lines.linewidth": 1.2,
    "lines.markersize": 3,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "axes.grid": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
    "figure.constrained_layout.use": True,
    "svg.hashsalt": "adanorm",
    "pdf.fonttype": 42,  # TrueType: journals refuse type 3
}


class Look(NamedTuple):
    """How a norm is drawn, everywhere."""

    color: str
    marker: str
    dashes: tuple[float, ...]  # on, off, ... in line widths; none: solid


# The colours of Okabe and Ito, told apart by the colour-blind; dashes and markers tell them apart in grey.
LOOKS = {
    "none": Look("#000000", "X", (1, 1.2)),
    "layernorm": Look("#0072B2", "o", ()),
    "layernorm-simple": Look("#56B4E9", "s", (3, 1.2)),
    "detachnorm": Look("#009E73", "^", (3, 1, 1, 1)),
    "detach-mean": Look("#E69F00", "<", (3, 1, 1, 1, 1, 1)),
    "detach-var": Look("#CC79A7", ">", (1, 2.5)),
    "adanorm": Look("#D55E00", "D", (6, 1.5)),
    "batchnorm": Look("#7B3294", "P", (4, 1, 1, 1)),  # not the paper's: purple, so that black is not near
}
OTHERS = (Look("#555555", "h", (6, 2, 2, 2)), Look("#999999", "*", (2, 1)), Look("#777777", "v", (4, 4)))


def looks(norms: Sequence[str]) -> dict[str, Look]:
    """Return the look of each norm; those that are not the paper's get a grey one in turn."""
    others = cycle(OTHERS)
    return {norm: LOOKS[norm] if norm in LOOKS else next(others) for norm in norms}


class Drawing(NamedTuple):
    """A figure with its name and what its reader must know."""

    name: str
    caption: str
    figure: Figure


@contextmanager
def styled() -> Iterator[None]:
    """Draw and write in the project's style during a block, whatever the user's own settings."""
    from matplotlib import style

    with style.context(["default", STYLE]):
        yield


def svg(drawing: Drawing) -> str:
    """Return a drawing as an SVG element, a file of its own or a part of an HTML page.

    Its ids begin with the drawing's name, so that several can stand in one page; its caption is
    what a screen reader reads.
    """
    text = _bytes(drawing, "svg").decode()
    element = text[text.index("<svg ") :]
    unique = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{drawing.name}-", element)
    return unique.replace("<svg ", f'<svg role="img" aria-label="{escape(drawing.caption)}" ', 1)


# No dates, and no versions: a file changes when what it shows does.
METADATA: dict[str, dict[str, None]] = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}


def _bytes(drawing: Drawing, kind: str) -> bytes:
    file = io.BytesIO()
    with styled():
        drawing.figure.savefig(
            file, format=kind, dpi=PIXELS_PER_INCH, metadata={"Title": drawing.name, **METADATA[kind]}
        )
    return file.getvalue()


def write_figure(drawing: Drawing, folder: Path) -> list[Path]:
    """Write a drawing in three formats, and a page with its caption, and return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    name = drawing.name
    contents = {
        ".svg": svg(drawing).encode(),
        ".pdf": _bytes(drawing, "pdf"),
        ".png": _bytes(drawing, "png"),
        ".md": f"# {name}\n\n![{name}]({name}.svg)\n\n{drawing.caption}\n".encode(),
    }
    paths = [folder / f"{name}{suffix}" for suffix in contents]
    for path, content in zip(paths, contents.values(), strict=True):
        write_whole(path, content)
    return paths
