"""Test scores over a setting, such as the batch size: one or more panels per task, one line per norm."""

from __future__ import annotations

from itertools import pairwise, product, starmap
from typing import NamedTuple

from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from adanorm.config.titles import title
from adanorm.reporting.figures.style import (
    NamedFigure,
    NormStyle,
    figure_style,
    legend_below,
    norm_styles,
    panels,
    seeds_line,
)
from adanorm.reporting.tables.table import Table
from adanorm.studies.study import StudyRow
from adanorm.verdicts.cell import Cell


class _Panel(NamedTuple):
    """What is drawn in one panel."""

    task: str
    rows: str | None  # those of the study that are in it, by their `panel`


@figure_style()
def over_setting(name: str, table: Table) -> NamedFigure | None:
    """Return the mean test scores of a study's norms over what its rows are at; None where none has run.

    What has no score is a mark on the lower edge: a cross where runs diverged or failed, an open
    circle where the norm is undefined.
    """
    study = table.study
    labels = dict.fromkeys(row.panel for row in study.rows.values())
    norms = list(dict.fromkeys(row.norm for row in study.rows.values()))
    shown = [
        panel
        for panel in starmap(_Panel, product(study.columns, labels))
        if any(cell and cell.results for norm in norms for *_, cell in _placed(table, norm, panel))
    ]
    if not shown:
        return None
    look = norm_styles(norms)
    heading = f"Test scores, {study.scale} scale"
    figure, grid = panels(len(shown), 1, 0.8 + 1.9 * len(shown), heading=heading)
    handles: dict[str, Line2D] = {}
    for panel, axes in zip(shown, grid, strict=True):
        placed = [_placed(table, norm, panel) for norm in norms]
        for norm, rows in zip(norms, placed, strict=True):
            scores = {at: cell.scores for at, _, cell in rows if cell and cell.scores}
            handles[title(norm)] = seeds_line(axes, [*scores], [*scores.values()], look[norm])
        for index, (norm, rows) in enumerate(zip(norms, placed, strict=True)):
            for at, row, cell in rows:
                if row.undefined or (cell and cell.results and not cell.scores):
                    _mark_scoreless(axes, at, row, look[norm], height=0.03 + 0.05 * index)
        _label(axes, table, panel)
    legend_below(figure, handles)
    return NamedFigure(name, _caption(table), figure)


def _placed(table: Table, norm: str, panel: _Panel) -> list[tuple[float, StudyRow, Cell | None]]:
    """Return a norm's rows in a panel, each with its cell, from the lowest value of the setting on."""
    placed = [
        (row.at or 0.0, row, table.cells[label, panel.task])
        for label, row in table.study.rows.items()
        if (row.norm, row.panel) == (norm, panel.rows)
    ]
    return sorted(placed, key=lambda one: one[0])


def _mark_scoreless(axes: Axes, at: float, row: StudyRow, look: NormStyle, *, height: float) -> None:
    marker = "o" if row.undefined else "x"
    axes.plot(
        at, height, marker=marker, markersize=5, markerfacecolor="none", color=look.color,
        linestyle="", transform=axes.get_xaxis_transform(), clip_on=False,
    )  # fmt: skip


def _label(axes: Axes, table: Table, panel: _Panel) -> None:
    values = sorted({row.at for row in table.study.rows.values() if row.at is not None})
    axes.set_title(": ".join([title(panel.task), *([panel.rows] if panel.rows else [])]))
    axes.set_ylabel(table.metric_of(panel.task).axis)
    axes.set_xlabel(table.study.over or "")
    steps = {after - before for before, after in pairwise(values)}
    if values[0] > 0 and len(steps) > 1:
        axes.set_xscale("log", base=2)
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.xaxis.set_minor_locator(ticker.NullLocator())


def _caption(table: Table) -> str:
    study = table.study
    sentences = [
        f"{study.title}. Test scores, at {study.scale} scale, of the weights best in validation, over the"
        f" {study.over}: means over all seeds on record (planned: {', '.join(map(str, study.seeds))}), in"
        " bands from the lowest to the highest."
    ]
    undefined = {(row.norm, row.undefined): None for row in study.rows.values() if row.undefined}
    sentences += [f"Open circle: {title(norm)} is undefined there ({reason})." for norm, reason in undefined]
    if any(cell is not None and cell.results and not cell.scores for cell in table.cells.values()):
        sentences.append("Cross: every run diverged or failed.")
    return " ".join([*sentences, "Not the paper's data or settings."])
