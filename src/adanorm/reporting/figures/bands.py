"""Analyses along training whose quantities are ranges: a line a norm, and a band from low to high."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from adanorm.analyses.cell import analysis_results
from adanorm.analyses.spec import Analysis, AnalysisRecord, Quantity
from adanorm.config.titles import title
from adanorm.records import reader
from adanorm.reporting.figures.over_updates import scale_panel
from adanorm.reporting.figures.style import WIDTH, NamedFigure, NormStyle, figure_style, norm_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


class Band(NamedTuple):
    """A quantity by update: its middle, where there is one, and its two ends."""

    at: list[int]
    middle: list[float] | None
    low: list[float]
    high: list[float]


def bands(
    name: str, analysis: Analysis, task: str, cells: Mapping[str, Sequence[AnalysisRecord]]
) -> NamedFigure | None:
    """Return a panel a quantity over updates; None where no record has ended.

    A quantity recorded with its ends, as `loss_low` and `loss_high` beside `loss`, is the band between them.
    Of any other the line is the mean over places and the band reaches from the lowest to the highest
    of them. Both are means over seeds.
    """
    ended = {
        norm: kept
        for norm, cell in cells.items()
        if (kept := [one for one in cell if analysis_results([one])])
    }
    panels = [quantity for quantity in analysis.shown if quantity.panel]
    found = {q.name: {norm: _band(cell, q.name) for norm, cell in ended.items()} for q in panels}
    panels = [quantity for quantity in panels if any(found[quantity.name].values())]
    if not panels:
        return None
    look = norm_styles(analysis.norms)
    with figure_style():
        from matplotlib.figure import Figure

        height = 0.5 + 1.45 * len(panels) + 0.16 * math.ceil(len(ended) / 2)
        figure = Figure(figsize=(WIDTH, height))
        figure.suptitle(f"{title(task)}, {analysis.scale} scale", fontsize=8, fontweight="bold")
        grid = figure.subplots(len(panels), 1, squeeze=False, sharex=True)
        handles: dict[str, Line2D] = {}
        for quantity, axes in zip(panels, grid.flat, strict=True):
            for norm, band in found[quantity.name].items():
                if band is not None:
                    handles.setdefault(norm, _draw(axes, band, look[norm]))
            _label(axes, quantity)
        grid.flat[-1].set_xlabel("update")
        figure.legend(handles.values(), map(title, handles), loc="outside lower center", ncols=2)
    return NamedFigure(name, f"{analysis.title}, {title(task)}. {analysis.caption}", figure)


def _band(cell: Sequence[AnalysisRecord], quantity: str) -> Band | None:
    """Return a quantity of a norm's records, at the updates that every one of them has numbers of."""
    ends = f"{quantity}_low", f"{quantity}_high"
    by_update: dict[int, list[tuple[float, float, float]]] = {}
    has_ends = False
    for record in cell:
        for row in reader.observations(record.folder()):
            places = list(row["values"].values())
            low, high = ([v[end] for v in places if v.get(end) is not None] for end in ends)
            middle = [v[quantity] for v in places if v.get(quantity) is not None]
            if low and high:
                has_ends = True
                by_update.setdefault(row["update"], []).append((fmean(low), math.nan, fmean(high)))
            elif middle:
                by_update.setdefault(row["update"], []).append((min(middle), fmean(middle), max(middle)))
    points = {at: [fmean(end) for end in zip(*seeds, strict=True)] for at, seeds in sorted(by_update.items())}
    if not points:
        return None
    low, middle, high = map(list, zip(*points.values(), strict=True))
    return Band([*points], None if has_ends else middle, low, high)


def _draw(axes: Axes, band: Band, look: NormStyle) -> Line2D:
    """Draw a band and return the line of it that stands for the norm in the legend."""
    dashes = (0, look.dashes) if look.dashes else "-"
    edge = {"color": look.color, "linestyle": dashes, "marker": look.marker}
    every = max(1, len(band.at) // 5)
    axes.fill_between(band.at, band.low, band.high, color=look.color, alpha=0.15, linewidth=0)
    if band.middle is not None:
        (line,) = axes.plot(band.at, band.middle, **edge, markevery=every)  # type: ignore[arg-type]
        return line
    axes.plot(band.at, band.low, color=look.color, linestyle=dashes, linewidth=0.7)
    (line,) = axes.plot(band.at, band.high, **edge, linewidth=0.7, markevery=every)  # type: ignore[arg-type]
    return line


def _label(axes: Axes, quantity: Quantity) -> None:
    from matplotlib import ticker

    reach = scale_panel(axes, quantity, updates=4)
    if reach is not None:
        # A decade or two have their 1 alone inside the axis, and one number is no scale.
        subs = (1.0,) if reach > 300 else (1.0, 3.0)
        axes.yaxis.set_major_locator(ticker.LogLocator(subs=subs, numticks=6))
        axes.yaxis.set_major_formatter("{x:g}")
