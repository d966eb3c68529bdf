"""Analyses along training: one panel per quantity over updates, one line or band per norm."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, TypeAlias

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


@figure_style()
def over_updates(
    name: str, analysis: Analysis, task: str, cells: Mapping[str, Sequence[AnalysisRecord]]
) -> NamedFigure | None:
    """Return each norm's mean over places and seeds by update; None where no record has ended.

    A quantity recorded with its ends, as `loss_low` and `loss_high` beside `loss`, is the band between them.
    """
    rows = {
        norm: [
            row
            for record in cell
            if analysis_results([record])
            for row in reader.record(record.folder()).rows("rows.jsonl")
        ]
        for norm, cell in cells.items()
    }
    values = [observed for of_norm in rows.values() for row in of_norm for observed in row["values"].values()]
    known = {quantity for observed in values for quantity, value in observed.items() if value is not None}
    shown = [q for q in analysis.shown if q.panel and {q.name, f"{q.name}_low"} & known]
    if not shown:
        return None
    columns = min(2, len(shown))
    height = 0.45 + 1.5 * math.ceil(len(shown) / columns) + 0.16 * math.ceil(len(rows) / 2)
    heading = f"{title(task)}, {analysis.scale} scale"
    figure, grid = panels(len(shown), columns, height, heading=heading, sharex=True)
    look = norm_styles(analysis.norms)
    handles: dict[str, Line2D] = {}
    for quantity, axes in zip(shown, grid, strict=True):
        for norm, of_norm in rows.items():
            if line := _draw(axes, of_norm, quantity, look[norm]):
                handles.setdefault(norm, line)
        _scale(axes, quantity, updates=5 - columns)
    for axes in grid[-columns:]:
        axes.tick_params(labelbottom=True)
        axes.set_xlabel("update")
    legend_below(figure, {title(norm): handles[norm] for norm in analysis.norms if norm in handles})
    return NamedFigure(name, f"{analysis.title}, {title(task)}. {analysis.caption}", figure)


def _draw(axes: Axes, rows: Rows, quantity: Quantity, look: NormStyle) -> Line2D | None:
    """Draw a norm's line or band, and thin and grey what the quantity stands beside."""
    if quantity.beside and (beside := _means(rows, quantity, quantity.beside)):
        axes.plot([*beside], [*beside.values()], color="0.6", linewidth=0.6, zorder=1.9)
    low, high = (_means(rows, quantity, f"{quantity.name}_{end}") for end in ("low", "high"))
    if low and high:
        axes.fill_between(
            [*low], [*low.values()], [*high.values()], color=look.color, alpha=0.15, linewidth=0
        )
    means = high or _means(rows, quantity, quantity.name)
    return norm_line(axes, [*means], [*means.values()], look) if means else None


def _means(rows: Rows, quantity: Quantity, name: str) -> dict[int, float]:
    """Return the means over places and seeds by update of what is recorded by a name."""
    by_update: dict[int, list[float]] = {}
    for row in rows:
        values = (observed.get(name) for observed in row["values"].values())
        if present := [value for value in values if value is not None]:
            by_update.setdefault(row["update"], []).extend(present)
    mean = geometric_mean if quantity.geometric else fmean
    return {update: mean(values) for update, values in by_update.items()}


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
