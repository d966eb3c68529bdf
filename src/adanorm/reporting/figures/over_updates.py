"""Analyses along training: one panel per quantity over updates, one line or band per norm."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from statistics import fmean
from typing import Any, TypeAlias

from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from adanorm.analyses.spec import (
    Analysis,
    AnalysisGrid,
    Quantity,
    analysis_results,
    geometric_mean,
)
from adanorm.config.titles import title
from adanorm.records import reader
from adanorm.reporting.figures import style
from adanorm.reporting.text import seeds

Rows: TypeAlias = Sequence[Mapping[str, Any]]  # the observations of a norm, over its seeds
BESIDE: style.Drawn = {
    "color": "0.6",
    "linewidth": 0.8,
    "zorder": 1.9,
}


@style.figure_style()
def over_updates(analysis: Analysis, grid: AnalysisGrid, task: str) -> style.NamedFigure | None:
    """Return each norm's means by update, or bands from `_low` to `_high`.

    None if no record has ended.
    """
    rows: dict[str, list[Mapping[str, Any]]] = {}
    by_norm = []
    for norm in analysis.norms:
        ended = [record for record in grid[norm, task] if analysis_results([record])]
        by_norm.append([record.experiment.seed for record in ended])
        rows[norm] = []
        for record in ended:
            rows[norm] += reader.record(record.folder()).rows("rows.jsonl")
    names = _recorded_names(chain(*rows.values()))
    quantities = []
    for quantity in analysis.shown:
        if quantity.panel and {quantity.name, f"{quantity.name}_low"} & names:
            quantities.append(quantity)
    if not quantities:
        return None
    message = _message(
        task,
        rows,
        quantities[0],
    )
    figure, panels = style.panels(
        quantities,
        2.0,
        message,
    )
    styles = style.norm_styles(analysis.norms)
    handles: style.Handles = {}
    for quantity, axes in panels:
        for norm in analysis.norms:
            line = _draw(
                axes,
                rows[norm],
                quantity,
                styles[norm],
            )
            if line:
                handles.setdefault(title(norm), line)
        axes.set(ylabel=quantity.label, xlabel="update")
        style.count_axis(axes.xaxis)
        if not (quantity.log and style.log_axis(axes)):
            axes.yaxis.set_major_locator(ticker.MaxNLocator(4))
            axes.yaxis.set_major_formatter("{x:g}")
    if any(axes.collections for _, axes in panels):
        handles["lowest to highest"] = style.BAND_HANDLE
    beside = {quantity.beside for quantity in quantities}
    for quantity in analysis.shown:
        if quantity.name in beside:
            handles[quantity.label] = BESIDE
    style.legend_below(figure, handles)
    caption = (
        f"{analysis.title}: {title(task)}, {analysis.scale} scale, {seeds(by_norm)}."
        " Means over sites and seeds. The analysis's table says what each quantity is, and averages"
        " it over updates."
    )
    return style.NamedFigure(
        f"analysis-{analysis.name}-{task}",
        caption,
        figure,
    )


def _recorded_names(rows: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the names of the quantities that any observation has a value of."""
    names = set()
    for row in rows:
        for values in row["values"].values():
            names |= {name for name, value in values.items() if value is not None}
    return names


def _message(
    task: str,
    rows: Mapping[str, Rows],
    quantity: Quantity,
) -> str:
    """Return in words the norms under which the first quantity ends largest and smallest."""
    last = {}
    for norm, observations in rows.items():
        means = _means(observations, quantity) or _means(observations, quantity, "_high")
        if means:
            last[norm] = means[max(means)]
    most = max(last, key=last.__getitem__)
    least = min(last, key=last.__getitem__)
    norms = "every norm"
    if last[most] != last[least]:
        norms = f"{title(most)}, {last[least]:.3g} under {title(least)}"
    return f"{title(task)}, {quantity.label} at the last update: {last[most]:.3g} under {norms}"


def _draw(
    axes: Axes,
    rows: Rows,
    quantity: Quantity,
    drawn: style.NormStyle,
) -> Line2D | None:
    """Draw a norm's line or band, and in thin grey the quantity that is shown beside it."""
    if quantity.beside:
        beside = _means(
            rows,
            quantity,
            name=quantity.beside,
        )
        if beside:
            axes.plot(
                list(beside),
                list(beside.values()),
                **BESIDE,
            )
    low = _means(rows, quantity, "_low")
    high = _means(rows, quantity, "_high")
    if low and high:
        axes.fill_between(
            list(low),
            list(low.values()),
            list(high.values()),
            color=drawn.color,
            **style.BAND,
        )
    means = high or _means(rows, quantity)
    return style.norm_line(axes, means, drawn) if means else None


def _means(
    rows: Rows,
    quantity: Quantity,
    end: str = "",
    *,
    name: str | None = None,
) -> dict[int, float]:
    """Return by update the means over places and seeds of a quantity, its `end`, or `name`."""
    name = name or f"{quantity.name}{end}"
    by_update: dict[int, list[float]] = {}
    for row in rows:
        for observed in row["values"].values():
            value = observed.get(name)
            if value is not None:
                by_update.setdefault(row["update"], []).append(value)
    mean = geometric_mean if quantity.geometric else fmean
    return {update: mean(values) for update, values in by_update.items()}
