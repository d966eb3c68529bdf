"""How figures look, and how they become files: the same records give the same bytes on any machine."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from matplotlib import style
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from adanorm.files import write_whole

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
    "svg.fonttype": "none",  # words, which are found, read aloud and small, in place of outlines
    "pdf.fonttype": 42,  # TrueType: journals refuse type 3
}


class NormStyle(NamedTuple):
    """How a norm is drawn, everywhere."""

    color: str
    marker: str
    dashes: tuple[float, ...]  # on, off, ... in line widths; none: solid


# The colors of Okabe and Ito, told apart by the colour-blind; dashes and markers tell them apart in grey.
NORM_STYLES = {
    "none": NormStyle("#000000", "X", (1, 1.2)),
    "layernorm": NormStyle("#0072B2", "o", ()),
    "layernorm-simple": NormStyle("#56B4E9", "s", (3, 1.2)),
    "detachnorm": NormStyle("#009E73", "^", (3, 1, 1, 1)),
    "detach-mean": NormStyle("#E69F00", "<", (3, 1, 1, 1, 1, 1)),
    "detach-var": NormStyle("#CC79A7", ">", (1, 2.5)),
    "adanorm": NormStyle("#D55E00", "D", (6, 1.5)),
    "batchnorm": NormStyle("#7B3294", "P", (4, 1, 1, 1)),  # not the paper's
}
OTHERS = (
    NormStyle("#555555", "h", (6, 2, 2, 2)),
    NormStyle("#999999", "*", (2, 1)),
    NormStyle("#777777", "v", (4, 4)),
)


def norm_styles(norms: Sequence[str]) -> dict[str, NormStyle]:
    """Return the look of each norm; those that are not the paper's get a grey one in turn."""
    others = cycle(OTHERS)
    return {norm: NORM_STYLES[norm] if norm in NORM_STYLES else next(others) for norm in norms}


class NamedFigure(NamedTuple):
    """A figure with its name and what its reader must know."""

    name: str
    caption: str
    figure: Figure


@contextmanager
def figure_style() -> Iterator[None]:
    """Draw and write in the project's style during a block, whatever the user's own settings."""
    with style.context(["default", STYLE]):
        yield


def panels(
    count: int, columns: int, height: float, *, heading: str | None = None, **options: Any
) -> tuple[Figure, list[Axes]]:
    """Return a figure of one column's width and its panels; `options` are those of matplotlib's subplots."""
    figure = Figure(figsize=(WIDTH, height))
    if heading:
        figure.suptitle(heading, fontsize=8, fontweight="bold")
    grid = list(figure.subplots(math.ceil(count / columns), columns, squeeze=False, **options).flat)
    for axes in grid[count:]:
        axes.set_axis_off()
    return figure, grid[:count]


def norm_line(axes: Axes, x: Sequence[float], y: Sequence[float], look: NormStyle) -> Line2D:
    """Draw a norm's line, with some five markers, and return it."""
    (line,) = axes.plot(x, y, color=look.color, marker=look.marker, markevery=max(1, len(x) // 5))
    line.set(linestyle=(0, look.dashes) if look.dashes else "-")
    return line


def seeds_line(
    axes: Axes, x: Sequence[float], by_place: Sequence[Sequence[float]], look: NormStyle
) -> Line2D:
    """Draw the mean over seeds in a band from the lowest to the highest, and return its line."""
    low, high = [*map(min, by_place)], [*map(max, by_place)]
    axes.fill_between(x, low, high, color=look.color, alpha=0.15, linewidth=0)
    return norm_line(axes, x, [*map(fmean, by_place)], look)


def legend_below(figure: Figure, handles: Mapping[str, Artist], **options: Any) -> None:
    """Put a legend of artists by their labels below the panels."""
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", **{"ncols": 2, **options})


def svg(drawing: NamedFigure) -> str:
    """Return a drawing as an SVG document whose words are text, in a font that the reader has."""
    return _bytes(drawing, "svg").decode().replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")


# No dates, and no versions: a file changes when what it shows does.
METADATA: dict[str, dict[str, None]] = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}


def _bytes(drawing: NamedFigure, kind: str) -> bytes:
    file = io.BytesIO()
    with figure_style():
        if layout := drawing.figure.get_layout_engine():  # once: savefig would draw all for it alone
            layout.execute(drawing.figure)
            drawing.figure.set_layout_engine("none")
        drawing.figure.savefig(
            file, format=kind, dpi=PIXELS_PER_INCH, metadata={"Title": drawing.name, **METADATA[kind]}
        )
    return file.getvalue()


def write_figure(drawing: NamedFigure, folder: Path, formats: Sequence[str] = ("svg",)) -> list[Path]:
    """Write a drawing in each format, and a page with its caption, and return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    name = drawing.name
    contents = {
        f".{kind}": svg(drawing).encode() if kind == "svg" else _bytes(drawing, kind) for kind in formats
    }
    contents[".md"] = f"# {name}\n\n![{name}]({name}.svg)\n\n{drawing.caption}\n".encode()
    paths = [folder / f"{name}{suffix}" for suffix in contents]
    for path, content in zip(paths, contents.values(), strict=True):
        write_whole(path, content)
    return paths
