"""Analyses along training: one panel per quantity over updates, one line or band per norm."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, TypeAlias

from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from adanorm.analyses.spec import Analysis, AnalysisGrid, Quantity, analysis_results, geometric_mean
from adanorm.config.titles import title
from adanorm.records import reader
from adanorm.reporting.figures import style
from adanorm.reporting.text import seeds

Rows: TypeAlias = Sequence[Mapping[str, Any]]  # the observations of a norm, over its seeds
BESIDE: dict[str, Any] = {"color": "0.6", "linewidth": 0.8, "zorder": 1.9}


@style.figure_style()
def over_updates(analysis: Analysis, grid: AnalysisGrid, task: str) -> style.NamedFigure | None:
    """Return each norm's means by update, or bands from `_low` to `_high`; None if no record has ended."""
    ended = {
        norm: [r for r in grid[norm, task] if analysis_results([r])] for norm in analysis.norms
    }
    rows = {
        norm: [
            row for record in records for row in reader.record(record.folder()).rows("rows.jsonl")
        ]
        for norm, records in ended.items()
    }
    values = [
        observed
        for of_norm in rows.values()
        for row in of_norm
        for observed in row["values"].values()
    ]
    names = {
        quantity for observed in values for quantity, value in observed.items() if value is not None
    }
    quantities = [q for q in analysis.shown if q.panel and {q.name, f"{q.name}_low"} & names]
    if not quantities:
        return None
    figure, panels = style.panels(
        len(quantities), 2.0, _message(analysis, task, rows, quantities[0])
    )
    look = style.norm_styles(analysis.norms)
    handles: dict[str, style.Handle] = {}
    for quantity, axes in zip(quantities, panels, strict=True):
        for norm, of_norm in rows.items():
            if line := _draw(axes, of_norm, quantity, look[norm]):
                handles.setdefault(title(norm), line)
        axes.set(ylabel=quantity.label, xlabel="update")
        style.count_axis(axes.xaxis)
        if not (quantity.log and style.log_axis(axes)):
            axes.yaxis.set_major_locator(ticker.MaxNLocator(4))
            axes.yaxis.set_major_formatter("{x:g}")
    if any(axes.collections for axes in panels):
        handles["lowest to highest"] = style.BAND_HANDLE
    beside = [quantity.beside for quantity in quantities]
    handles |= {quantity.label: BESIDE for quantity in analysis.shown if quantity.name in beside}
    style.legend_below(figure, handles)
    drawn = [[record.experiment.seed for record in records] for records in ended.values()]
    about = f"{analysis.title}: {title(task)}, {analysis.scale} scale, {seeds(drawn)}."
    table = "The analysis's table says what each quantity is, and averages it over updates."
    caption = f"{about} Means over sites and seeds. {table}"
    return style.NamedFigure(f"analysis-{analysis.name}-{task}", caption, figure)


def _message(analysis: Analysis, task: str, rows: Mapping[str, Rows], quantity: Quantity) -> str:
    """Return in words the norms under which the first quantity ends largest and smallest."""
    means = {
        norm: _means(of, quantity, quantity.name) or _means(of, quantity, f"{quantity.name}_high")
        for norm, of in rows.items()
    }
    last = {norm: mean[max(mean)] for norm, mean in means.items() if mean}
    most, least = max(last, key=last.__getitem__), min(last, key=last.__getitem__)
    others = f"{title(most)}, {last[least]:.3g} under {title(least)}"
    norms = "every norm" if last[most] == last[least] else others
    return f"{title(task)}, {quantity.label} at the last update: {last[most]:.3g} under {norms}"


def _draw(axes: Axes, rows: Rows, quantity: Quantity, look: style.NormStyle) -> Line2D | None:
    """Draw a norm's line or band, and in thin grey the quantity that is shown beside it."""
    if quantity.beside and (beside := _means(rows, quantity, quantity.beside)):
        axes.plot([*beside], [*beside.values()], **BESIDE)
    low, high = (_means(rows, quantity, f"{quantity.name}_{end}") for end in ("low", "high"))
    if low and high:
        axes.fill_between([*low], [*low.values()], [*high.values()], color=look.color, **style.BAND)
    means = high or _means(rows, quantity, quantity.name)
    return style.norm_line(axes, means, look) if means else None


def _means(rows: Rows, quantity: Quantity, name: str) -> dict[int, float]:
    """Return by update the means over places and seeds of the quantity recorded as `name`."""
    by_update: dict[int, list[float]] = {}
    for row in rows:
        values = (observed.get(name) for observed in row["values"].values())
        if present := [value for value in values if value is not None]:
            by_update.setdefault(row["update"], []).extend(present)
    mean = geometric_mean if quantity.geometric else fmean
    return {update: mean(values) for update, values in by_update.items()}
