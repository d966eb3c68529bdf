"""Analyses as text and as figures, from their records alone."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from adanorm.analyses import Analysis, Grid, Quantity, Record
from adanorm.records import reader
from adanorm.reporting.figures import WIDTH, Drawing, Look, looks, styled
from adanorm.reporting.formats import line_of, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


def results(cell: Sequence[Record]) -> list[dict[str, Any]]:
    """Return the results of the records that have ended."""
    found = (reader.result(record.folder()) for record in cell)
    return [result for result in found if result is not None]


def text(cell: Sequence[Record], quantity: Quantity) -> str:
    """Return a quantity of a cell: its mean ± standard deviation over seeds, `diverges`, or `-`."""
    ended = results(cell)
    if any(result["status"] == "diverged" for result in ended):
        return "diverges"
    numbers = [result["summary"][quantity.name] for result in ended if quantity.name in result["summary"]]
    if not numbers:
        return "-"
    if quantity.yes_within is not None:
        limit = float(cell[0].analysis.options[quantity.yes_within])
        return "yes" if max(numbers) <= limit else "no"
    mean = number(fmean(numbers))
    return f"{mean} ± {number(stdev(numbers))}" if len(numbers) > 1 else mean


def unchanged_with(analysis: Analysis, grid: Grid) -> dict[str, list[str]]:
    """Return the labels of what each norm on record says yes to, such as its invariances."""
    return {
        norm: [quantity.label for quantity in analysis.shown if text(cell, quantity) == "yes"]
        for (norm, _), cell in grid.items()
        if results(cell)
    }


def number(value: float) -> str:
    """Return a number with three digits that count, however large or small it is."""
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:.3f}" if abs(value) < 10 else f"{value:.4g}"
    return f"{value:.1e}"


def _grid(analysis: Analysis, grid: Grid, task: str) -> list[list[str]]:
    return [
        [title(norm), *(text(grid[norm, task], quantity) for quantity in analysis.shown)]
        for norm in analysis.norms
        if results(grid[norm, task])
    ]


def markdown(analysis: Analysis, grid: Grid) -> str:
    """Return the table of an analysis in Markdown: a part a task, a line a norm."""
    lines = [f"# {analysis.title}", ""]
    header = ["Model", *(quantity.label.replace("|", r"\|") for quantity in analysis.shown)]
    for task in analysis.tasks or [""]:
        rows = _grid(analysis, grid, task)
        if not rows:
            continue
        if task:
            lines += [f"## {title(task)}, {analysis.scale} scale", ""]
        lines += [line_of(header), line_of(["---"] * len(header)), *map(line_of, rows), ""]
    return "\n".join([*lines, analysis.caption, "", _how(analysis), ""])


def _how(analysis: Analysis) -> str:
    settings = ", ".join(
        f"{key} {value}" for key, value in analysis.settings().items() if key not in ("name", "evaluate")
    )
    seeds = f"seeds {', '.join(map(str, analysis.seeds))}"
    over = "Means over the observations and the places observed, ± standard deviation over seeds; "
    return f"{over}{settings}, {seeds}."


def comma_separated(analysis: Analysis, grid: Grid) -> str:
    """Return what was observed as CSV: a line a record, place and quantity, unrounded."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["task", "norm", "scale", "seed", "status", "place", "quantity", "mean"])
    for (norm, task), cell in grid.items():
        for result in results(cell):
            scale = analysis.scale if task else ""
            about = [task, norm, scale, result["seed"], result["status"]]
            for place, values in result["places"].items():
                writer.writerows([*about, place, name, f"{value:.6g}"] for name, value in values.items())
            for name, value in (result.get("valid") or {}).items():
                writer.writerow([*about, "", f"valid_{name}", f"{value:.6g}"])
    return file.getvalue()


def terminal(analysis: Analysis, grid: Grid) -> str:
    """Return the table for a terminal of 80 columns."""
    lines = [analysis.title]
    for task in analysis.tasks or [""]:
        rows = _grid(analysis, grid, task)
        if not rows:
            continue
        if task:
            lines.append(f"{title(task)}, {analysis.scale}")
        # Columns that do not fit go below the others.
        width = max(8, *(len(field) for row in rows for field in row[1:]))
        columns = max(1, (80 - 18) // (width + 1))
        for start in range(0, len(analysis.shown), columns):
            part = slice(start + 1, start + 1 + columns)
            header = [quantity.short for quantity in analysis.shown[start : start + columns]]
            for name, fields in [("", header), *((row[0], row[part]) for row in rows)]:
                lines.append(f"  {name:<16}" + "".join(f" {field:>{width}}" for field in fields))
    return "\n".join(lines) if len(lines) > 1 else f"{analysis.title}: no records yet"


def over_updates(
    name: str, analysis: Analysis, task: str, cells: Mapping[str, Sequence[Record]]
) -> Drawing | None:
    """Return a panel a quantity over updates, a line a norm: its mean over places and seeds.

    None where no record has ended.
    """
    curves = {norm: _by_quantity(cell) for norm, cell in cells.items() if results(cell)}
    panels = [
        quantity
        for quantity in analysis.shown
        if quantity.panel and any(found.get(quantity.name) for found in curves.values())
    ]
    if not panels:
        return None
    look = looks(analysis.norms)
    columns = min(2, len(panels))
    rows = math.ceil(len(panels) / columns)
    with styled():
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
    return Drawing(name, f"{analysis.title}, {title(task)}. {analysis.caption}", figure)


def _by_quantity(cell: Sequence[Record]) -> dict[str, dict[int, float]]:
    """Return of each quantity its mean over places and seeds by update."""
    seen: dict[str, dict[int, list[float]]] = {}
    for record in cell:
        for row in reader.observations(record.folder()):
            for values in row["values"].values():
                for name, value in values.items():
                    if value is not None:
                        seen.setdefault(name, {}).setdefault(row["update"], []).append(value)
    return {name: {at: fmean(found) for at, found in points.items()} for name, points in seen.items()}


def _draw(axes: Axes, points: Mapping[int, float], look: Look) -> Line2D:
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
