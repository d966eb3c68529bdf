"""The style of figures, and writing them: the same records give the same bytes on any machine."""

import io
import math
import re
import textwrap
from collections.abc import (
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from functools import partial
from itertools import cycle
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, TypeAlias, TypeVar

from matplotlib import style, ticker
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from adanorm.config.values import read_yaml_file
from adanorm.files import write_files
from adanorm.reporting.text import markdown

WIDTH = 7.0  # inches: both columns of a page
TITLE_LINE = 94  # characters
PIXELS_PER_INCH = 200
# For drawing and writing, as a decorator or in a block: this style, whatever the user's own
# settings.
figure_style = partial(style.context, ["default", Path(__file__).with_suffix(".mplstyle")])


class NormStyle(NamedTuple):
    """How a norm is drawn in every figure."""

    color: str
    marker: str
    dashes: tuple[float, ...]  # on, off, ... in line widths; empty: solid

    @property
    def point(self) -> "Drawn":
        """How a point of the norm is drawn."""
        return {"color": self.color, "marker": self.marker}


def _norm_style(color: str, marker: str, dashes: list[float]) -> NormStyle:
    return NormStyle(color, marker, tuple(dashes))


STYLES = read_yaml_file(Path(__file__).with_name("norm-styles.yaml"))
NORM_STYLES = {norm: _norm_style(*entry) for norm, entry in STYLES["norms"].items()}
GREYS = [_norm_style(*entry) for entry in STYLES["others"]]
Drawn: TypeAlias = dict[str, Any]  # how a line or, with alpha, an area is drawn: for matplotlib
Handle: TypeAlias = Artist | Drawn  # in a legend
Handles: TypeAlias = dict[str, Handle]  # by label
OPEN: Drawn = {
    "markersize": 5,
    "markerfacecolor": "none",
    "linestyle": "",
}
PAPER = {**OPEN, "color": "black", "marker": "d"}
SEED: Any = {
    "color": "0.45",
    "marker": "o",
    "markersize": 2,
    "markeredgewidth": 0,
    "linestyle": "",
}
BAND: Drawn = {"alpha": 0.15, "linewidth": 0}
BAND_HANDLE: Drawn = {"color": "0.3", **BAND}  # in a legend


def norm_styles(norms: Iterable[str]) -> dict[str, NormStyle]:
    """Return the style of each norm; norms without their own style take the grey ones in turn."""
    greys = cycle(GREYS)
    return {norm: NORM_STYLES.get(norm) or next(greys) for norm in dict.fromkeys(norms)}


Item = TypeVar("Item")


class NamedFigure(NamedTuple):
    """A figure with its name and caption."""

    name: str
    caption: str
    figure: Figure


def panels(
    items: Collection[Item],
    height: float,
    message: str,
    *,
    across: int = 4,
    **options: Any,
) -> tuple[Figure, list[tuple[Item, Axes]]]:
    """Return a figure with a title, and each item with its panel.

    Panels are `height` inches high, `across` per row.
    """
    count = len(items)
    across = min(across, count)
    rows = math.ceil(count / across)
    title = textwrap.wrap(message, TITLE_LINE)
    figure = Figure(
        figsize=(
            WIDTH,
            0.5 + 0.14 * len(title) + height * rows,
        )
    )
    figure.suptitle(
        "\n".join(title),
        fontsize=8.5,
        fontweight="bold",
    )
    grid = list(
        figure.subplots(
            rows,
            across,
            squeeze=False,
            **options,
        ).flat
    )
    for axes in grid[count:]:
        axes.set_axis_off()
    return figure, list(zip(items, grid, strict=False))


def norm_line(axes: Axes, points: Mapping[Any, float], style: NormStyle) -> Line2D:
    """Draw and return a norm's line through points (y by x), with about five markers."""
    (line,) = axes.plot(
        list(points),
        list(points.values()),
        markevery=max(1, len(points) // 5),
        **style.point,
    )
    line.set(linestyle=(0, style.dashes) if style.dashes else "-")
    return line


def seeds_line(
    axes: Axes,
    seeds: Mapping[float, Collection[float]],
    style: NormStyle,
) -> Line2D:
    """Draw the mean over seeds by x, in a band from the lowest to the highest seed.

    Return the line.
    """
    scores = seeds.values()
    axes.fill_between(
        list(seeds),
        list(map(min, scores)),
        list(map(max, scores)),
        color=style.color,
        **BAND,
    )
    return norm_line(
        axes,
        {x: fmean(values) for x, values in seeds.items()},
        style,
    )


def count_axis(axis: Axis) -> None:
    """Label an axis of updates or epochs with about four whole numbers, such as 400k."""
    axis.set_major_locator(ticker.MaxNLocator(4, integer=True))
    axis.set_major_formatter(ticker.EngFormatter(sep=""))


def name_rows(axes: Axes, names: Iterable[str]) -> None:
    """Label the rows 0, 1, ... of a panel with names instead of ticks, the first row on top."""
    labels = list(names)
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)


def log_axis(axes: Axes) -> bool:
    """Make y logarithmic, with a few labels, if values span more than a factor of ten.

    Return whether they do.
    """
    low, high = axes.dataLim.intervaly
    if not 0 < 10 * low < high:
        return False
    labelled = [1.0, 2.0, 5.0]
    if high / low >= 100:
        labelled = [1.0, 3.0]
    if high / low >= 300:
        labelled = [1.0]
    axes.set_yscale("log")
    axes.yaxis.set_minor_locator(ticker.NullLocator())
    axes.yaxis.set_major_locator(ticker.LogLocator(subs=labelled, numticks=6))
    axes.yaxis.set_major_formatter("{x:g}")
    return True


def legend_below(figure: Figure, handles: Mapping[str, Handle]) -> None:
    """Put a legend below the panels.

    A handle is an artist, or how a line or (with alpha) an area looks.
    """
    rows = math.ceil(len(handles) / 4)
    columns = math.ceil(len(handles) / rows)
    artists = list(map(_artist, handles.values()))
    figure.legend(
        artists,
        handles.keys(),
        loc="outside lower center",
        ncols=columns,
    )


def _artist(handle: Handle) -> Artist:
    if isinstance(handle, Artist):
        return handle
    if "alpha" in handle:
        return Patch(**handle)
    return Line2D(
        [],
        [],
        **{"color": "0.35", **handle},
    )


# No dates and no versions: a file changes only when the figure does.
METADATA: dict[str, dict[str, None]] = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {
        "CreationDate": None,
        "Creator": None,
        "Producer": None,
    },
    "png": {"Software": None},
}
LONG_NUMBER = rb"-?\d+\.\d{4,}"
# On a dark page black and white change places, and colors keep their hue.
DARK = b"""
@media (prefers-color-scheme: dark) { svg { filter: invert(.93) hue-rotate(180deg) } }"""


def rendered(drawing: NamedFigure, kind: str) -> bytes:
    """Return the bytes of a drawing as svg, pdf or png.

    An SVG's words are text, in a font its reader has.
    """
    file = io.BytesIO()
    figure = drawing.figure
    metadata = {"Title": drawing.name, **METADATA[kind]}
    with figure_style():
        layout = figure.get_layout_engine()
        if layout:
            layout.execute(figure)
            figure.set_layout_engine("none")
        if kind != "svg":
            figure.savefig(
                file,
                format=kind,
                dpi=PIXELS_PER_INCH,
                metadata=metadata,
            )
            return file.getvalue()
        # Not savefig, which would draw the SVG twice, and use only the second.
        figure.dpi = PIXELS_PER_INCH  # of images in it
        FigureCanvasSVG(figure).print_svg(file, metadata=metadata)  # type: ignore[no-untyped-call]
    font = b"'DejaVu Sans'"
    svg = file.getvalue().replace(font, font + b", Verdana, sans-serif")
    svg = svg.replace(b"</style>", DARK + b"</style>", 1)
    return _with_rounded_coordinates(_numbered_ids(svg))


def _with_rounded_coordinates(svg: bytes) -> bytes:
    """Return an SVG whose coordinates have at most three decimals, a thousandth of a point.

    Matplotlib writes six decimals. The sixth differs between processors.
    """
    coordinates = rb' (?:d|x|y|width|height|points|transform)="[^"]*"'
    return re.sub(coordinates, lambda match: re.sub(LONG_NUMBER, _rounded, match[0]), svg)


def _rounded(number: re.Match[bytes]) -> bytes:
    rounded = round(float(number[0]), 3) + 0.0  # + 0.0: no -0
    return b"%d" % rounded if rounded.is_integer() else f"{rounded}".encode()


def _numbered_ids(svg: bytes) -> bytes:
    """Return an SVG whose clip paths, markers and hatches are numbered in their order.

    Matplotlib names them by a hash of their exact coordinates, whose last binary digit differs
    between processors.
    """
    names: dict[bytes, bytes] = {}
    for name in re.findall(rb'id="([A-Za-z][0-9a-f]{10})"', svg):
        names.setdefault(name, b"%c%d" % (name[0], len(names) + 1))
    return re.sub(
        rb"(?<=[\"#])[A-Za-z][0-9a-f]{10}(?=[\")])",
        lambda match: names.get(match[0], match[0]),
        svg,
    )


def write_figure(
    drawing: NamedFigure,
    folder: Path,
    formats: Sequence[str] = ("svg",),
) -> list[Path]:
    """Write a drawing in each format, with a page for its caption; return the files."""
    name = drawing.name
    files: dict[str, bytes | str] = {f"{name}.{kind}": rendered(drawing, kind) for kind in formats}
    files[f"{name}.md"] = f"# {name}\n\n![{name}]({name}.svg)\n\n{markdown(drawing.caption)}\n"
    return write_files(folder, files)
