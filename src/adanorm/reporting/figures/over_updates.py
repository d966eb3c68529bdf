"""Analyses along training: quantities over updates, as one line per norm or as a band from low to high."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any, NamedTuple, TypeAlias

from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from adanorm.analyses.cell import analysis_results, geometric_mean
from adanorm.analyses.spec import Analysis, AnalysisRecord, Quantity
from adanorm.config.titles import title
from adanorm.records import reader
from adanorm.reporting.figures.style import (
    NamedFigure,
    NormStyle,
    figure_style,
    legend_below,
    norm_line,
    norm_styles,
    panels,
)

Rows: TypeAlias = Sequence[Mapping[str, Any]]  # the observations of a norm, over its seeds
Cells: TypeAlias = Mapping[str, Sequence[AnalysisRecord]]
Draw: TypeAlias = Callable[[Axes, Rows, Quantity, NormStyle], "Line2D | None"]


def over_updates(name: str, analysis: Analysis, task: str, cells: Cells) -> NamedFigure | None:
    """Return one panel per quantity, with one line per norm: its mean over places and seeds.

    None where no record has ended.
    """
    geometric = {quantity.name for quantity in analysis.shown if quantity.geometric}
    return _figure(name, analysis, task, cells, partial(_draw_line, geometric=geometric), columns=2)


def bands(name: str, analysis: Analysis, task: str, cells: Cells) -> NamedFigure | None:
    """Return one panel per quantity, with one band per norm; None where no record has ended.

    A quantity recorded with its ends, as `loss_low` and `loss_high` beside `loss`, is the band between them.
    Of any other the line is the mean over places and the band reaches from the lowest to the highest
    of them. Both are means over seeds.
    """
    return _figure(name, analysis, task, cells, _draw_band, columns=1)


@figure_style()
def _figure(
    name: str, analysis: Analysis, task: str, cells: Cells, draw: Draw, *, columns: int
) -> NamedFigure | None:
    rows = {
        norm: [row for record in cell if analysis_results([record]) for row in _observed(record)]
        for norm, cell in cells.items()
    }
    values = [observed for of_norm in rows.values() for row in of_norm for observed in row["values"].values()]
    known = {quantity for observed in values for quantity, value in observed.items() if value is not None}
    shown = [q for q in analysis.shown if q.panel and {q.name, f"{q.name}_low"} & known]
    if not shown:
        return None
    columns = min(columns, len(shown))
    height = 0.45 + 1.5 * math.ceil(len(shown) / columns) + 0.16 * math.ceil(len(rows) / 2)
    heading = f"{title(task)}, {analysis.scale} scale"
    figure, grid = panels(len(shown), columns, height, heading=heading, sharex=True)
    look = norm_styles(analysis.norms)
    handles: dict[str, Line2D] = {}
    for quantity, axes in zip(shown, grid, strict=True):
        for norm, of_norm in rows.items():
            if line := draw(axes, of_norm, quantity, look[norm]):
                handles.setdefault(norm, line)
        _scale(axes, quantity, updates=5 - columns)
    for axes in grid[-columns:]:
        axes.tick_params(labelbottom=True)
        axes.set_xlabel("update")
    legend_below(figure, {title(norm): handles[norm] for norm in analysis.norms if norm in handles})
    return NamedFigure(name, f"{analysis.title}, {title(task)}. {analysis.caption}", figure)


def _observed(record: AnalysisRecord) -> Rows:
    return reader.observations(record.folder())


def _draw_line(
    axes: Axes, rows: Rows, quantity: Quantity, look: NormStyle, *, geometric: Collection[str]
) -> Line2D | None:
    """Draw a norm's mean over places and seeds, and thin and grey what the quantity stands beside."""
    if quantity.beside and (beside := _means(rows, quantity.beside, geometric)):
        axes.plot([*beside], [*beside.values()], color="0.6", linewidth=0.6, zorder=1.9)
    means = _means(rows, quantity.name, geometric)
    return norm_line(axes, [*means], [*means.values()], look) if means else None


def _means(rows: Rows, quantity: str, geometric: Collection[str]) -> dict[int, float]:
    """Return a quantity's mean over places and seeds by update, the geometric one of some."""
    by_update: dict[int, list[float]] = {}
    for row in rows:
        values = (observed.get(quantity) for observed in row["values"].values())
        if present := [value for value in values if value is not None]:
            by_update.setdefault(row["update"], []).extend(present)
    mean = geometric_mean if quantity in geometric else fmean
    return {update: mean(values) for update, values in by_update.items()}


class Band(NamedTuple):
    """A quantity by update: its middle, where there is one, and its two ends."""

    at: list[int]
    middle: list[float] | None
    low: list[float]
    high: list[float]


def _draw_band(axes: Axes, rows: Rows, quantity: Quantity, look: NormStyle) -> Line2D | None:
    """Draw a band and return the line of it that stands for the norm in the legend."""
    band = _band(rows, quantity.name)
    if band is None:
        return None
    axes.fill_between(band.at, band.low, band.high, color=look.color, alpha=0.15, linewidth=0)
    if band.middle is not None:
        return norm_line(axes, band.at, band.middle, look)
    low, high = norm_line(axes, band.at, band.low, look), norm_line(axes, band.at, band.high, look)
    low.set(linewidth=0.7, marker="")
    high.set(linewidth=0.7)
    return high


def _band(rows: Rows, quantity: str) -> Band | None:
    """Return a quantity of a norm's observations, averaged over seeds at each update."""
    by_update: dict[int, list[tuple[float, float, float]]] = {}
    has_ends = False
    for row in rows:
        low, middle, high = (
            [v[name] for v in row["values"].values() if v.get(name) is not None]
            for name in (f"{quantity}_low", quantity, f"{quantity}_high")
        )
        if low and high:
            has_ends = True
            by_update.setdefault(row["update"], []).append((fmean(low), math.nan, fmean(high)))
        elif middle:
            by_update.setdefault(row["update"], []).append((min(middle), fmean(middle), max(middle)))
    if not by_update:
        return None
    updates = sorted(by_update)
    lows, middles, highs = zip(
        *([fmean(end) for end in zip(*by_update[at], strict=True)] for at in updates), strict=True
    )
    return Band(updates, None if has_ends else [*middles], [*lows], [*highs])


def _scale(axes: Axes, quantity: Quantity, *, updates: int) -> None:
    """Title a panel and scale it to what is drawn, with so many updates labelled.

    A quantity is shown on a logarithmic scale where it asks for it and reaches over a decade.
    """
    axes.set_title(quantity.label)
    axes.xaxis.set_major_locator(ticker.MaxNLocator(updates, integer=True))
    axes.xaxis.set_major_formatter(ticker.EngFormatter(sep=""))
    low, high = axes.dataLim.intervaly
    if not (quantity.log and low > 0 and high / low > 10):
        axes.yaxis.set_major_locator(ticker.MaxNLocator(4))
        return
    axes.set_yscale("log")
    axes.yaxis.set_minor_locator(ticker.NullLocator())
    if high / low < 3000:  # a decade or two have their 1 alone inside the axis, and one number is no scale
        subs = (1.0,) if high / low > 300 else (1.0, 3.0)
        axes.yaxis.set_major_locator(ticker.LogLocator(subs=subs, numticks=6))
        axes.yaxis.set_major_formatter("{x:g}")
