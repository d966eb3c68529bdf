"""Analyses along training: quantities over updates."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from adanorm.analyses.cell import analysis_results
from adanorm.analyses.spec import Analysis, AnalysisRecord, Quantity
from adanorm.analyses.summary import geometric_mean
from adanorm.config.titles import title
from adanorm.records import reader
from adanorm.reporting.figures.style import WIDTH, NamedFigure, NormStyle, figure_style, norm_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


def over_updates(
    name: str, analysis: Analysis, task: str, cells: Mapping[str, Sequence[AnalysisRecord]]
) -> NamedFigure | None:
    """Return a panel a quantity over updates, a line a norm: its mean over places and seeds.

    None where no record has ended.
    """
    geometric = {quantity.name for quantity in analysis.shown if quantity.geometric}
    curves = {norm: _by_quantity(cell, geometric) for norm, cell in cells.items() if analysis_results(cell)}
    panels = [
        quantity
        for quantity in analysis.shown
        if quantity.panel and any(found.get(quantity.name) for found in curves.values())
    ]
    if not panels:
        return None
    look = norm_styles(analysis.norms)
    columns = min(2, len(panels))
    rows = math.ceil(len(panels) / columns)
    with figure_style():
        from matplotlib.figure import Figure

        legend_rows = math.ceil(len(curves) / 2)
        figure = Figure(figsize=(WIDTH, 0.45 + 1.5 * rows + 0.16 * legend_rows))
        figure.suptitle(f"{title(task)}, {analysis.scale} scale", fontsize=8, fontweight="bold")
        grid = figure.subplots(rows, columns, squeeze=False, sharex=True)
        handles: dict[str, Line2D] = {}
        for quantity, axes in zip(panels, grid.flat, strict=False):
            for norm, found in curves.items():
                if points := found.get(quantity.name):
                    handles.setdefault(norm, _draw(axes, points, look[norm]))
            for found in curves.values():
                if quantity.beside is not None and (points := found.get(quantity.beside)):
                    axes.plot([*points], [*points.values()], color="0.6", linewidth=0.6)
            _label(axes, quantity)
        for axes in grid.flat[len(panels) :]:
            axes.set_axis_off()
        for axes in list(grid.flat)[len(panels) - columns : len(panels)]:
            axes.tick_params(labelbottom=True)
            axes.set_xlabel("update")
        shown = [norm for norm in analysis.norms if norm in handles]
        figure.legend([handles[n] for n in shown], map(title, shown), loc="outside lower center", ncols=2)
    return NamedFigure(name, f"{analysis.title}, {title(task)}. {analysis.caption}", figure)


def _by_quantity(cell: Sequence[AnalysisRecord], geometric: Collection[str]) -> dict[str, dict[int, float]]:
    """Return of each quantity its mean over places and seeds by update, the geometric one of some."""
    seen: dict[str, dict[int, list[float]]] = {}
    for record in cell:
        for row in reader.observations(record.folder()):
            for values in row["values"].values():
                for name, value in values.items():
                    if value is not None:
                        seen.setdefault(name, {}).setdefault(row["update"], []).append(value)
    means = {name: geometric_mean if name in geometric else fmean for name in seen}
    return {name: {at: means[name](found) for at, found in points.items()} for name, points in seen.items()}


def _draw(axes: Axes, points: Mapping[int, float], look: NormStyle) -> Line2D:
    (line,) = axes.plot([*points], [*points.values()], color=look.color, marker=look.marker)
    line.set(linestyle=(0, look.dashes) if look.dashes else "-", markevery=max(1, len(points) // 5))
    return line


def _label(axes: Axes, quantity: Quantity) -> None:
    from matplotlib import ticker

    scale_panel(axes, quantity, updates=3)
    axes.xaxis.set_major_formatter(ticker.EngFormatter(sep=""))


def scale_panel(axes: Axes, quantity: Quantity, *, updates: int) -> float | None:
    """Title a panel and scale it to what is drawn, with so many updates told; return high : low if it is log.

    A quantity is shown on a logarithmic scale where it asks for it and reaches over a decade.
    """
    from matplotlib import ticker

    axes.set_title(quantity.label)
    axes.xaxis.set_major_locator(ticker.MaxNLocator(updates, integer=True))
    low, high = axes.dataLim.intervaly
    if quantity.log and low > 0 and high / low > 10:
        axes.set_yscale("log")
        axes.yaxis.set_minor_locator(ticker.NullLocator())
        return float(high / low)
    axes.yaxis.set_major_locator(ticker.MaxNLocator(4))
    return None
