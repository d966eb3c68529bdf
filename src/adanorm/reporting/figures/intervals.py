"""Test scores with their intervals: one panel per task, one row per norm, the paper's number beside ours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from scipy.stats import t

from adanorm.config.titles import title
from adanorm.metrics.table import Metric
from adanorm.reporting.figures.style import (
    NamedFigure,
    NormStyle,
    figure_style,
    legend_below,
    norm_styles,
    panels,
)
from adanorm.reporting.tables.table import Table
from adanorm.verdicts.cell import Cell
from adanorm.verdicts.variance import Spread

SEED = "0.45"
LEGEND: dict[str, dict[str, Any]] = {
    "mean, 95 % interval": {"color": SEED, "marker": "o"},
    "one seed": {"color": SEED, "marker": "o", "linestyle": ""},
    "seed": {"color": SEED, "marker": "o", "markersize": 2, "markeredgewidth": 0, "linestyle": ""},
    "paper": {"color": "black", "marker": "o", "markersize": 5.5, "markerfacecolor": "none", "linestyle": ""},
}


@figure_style()
def norm_scores(name: str, table: Table) -> NamedFigure | None:
    """Return the test scores of a study's norms on the tasks that have runs; None where none has."""
    study = table.study
    ended = {address: cell for address, cell in table.cells.items() if cell is not None and cell.results}
    tasks = [task for task in study.columns if any((norm, task) in ended for norm in study.rows)]
    if not tasks:
        return None
    look = norm_styles(list(study.rows))
    columns = min(2, len(tasks))
    height = 0.5 + math.ceil(len(tasks) / columns) * (0.65 + 0.17 * len(study.rows))
    heading = f"Test scores, {study.scale} scale"
    figure, grid = panels(len(tasks), columns, height, heading=heading, sharey=True)
    needs: set[str] = set()
    for task, axes in zip(tasks, grid, strict=True):
        spread = table.variance(task).within
        for row, norm in enumerate(study.rows):
            if cell := ended.get((norm, task)):
                paper = cell.paper.value if cell.paper and table.is_compared(norm, task) else None
                needs |= _draw(axes, row, cell, paper, look[norm], spread)
        _label(axes, task, table.metric_of(task), list(study.rows))
    handles = {text: Line2D([], [], **LEGEND[text]) for text in LEGEND if text in needs}
    legend_below(figure, handles, ncols=3, handlelength=1.6, columnspacing=1)
    return NamedFigure(name, _caption(table, tasks), figure)


def _draw(
    axes: Axes, row: int, cell: Cell, paper: float | None, look: NormStyle, spread: Spread | None
) -> set[str]:
    """Draw a cell and return which entries of the legend it needs."""
    needs = set()
    dot: dict[str, Any] = {"color": look.color, "marker": look.marker}
    if diverged := cell.count("diverged"):
        text = f"diverges ({diverged}/{len(cell.results)})"
        axes.text(0.02, row, text, transform=axes.get_yaxis_transform(), va="center")
    elif len(cell.scores) > 1:
        if spread is not None:  # none where no run of the column learned
            axes.plot(_interval(cell.scores, spread), [row, row], color=look.color)
            needs.add("mean, 95 % interval")
        axes.plot(fmean(cell.scores), row, **dot)
        axes.scatter(cell.scores, [row + 0.3] * len(cell.scores), s=4, color=SEED, linewidths=0)
        needs.add("seed")
    elif cell.scores:
        axes.plot(cell.scores, [row], **dot)
        needs.add("one seed")
    if paper is not None:
        axes.plot(paper, row, **LEGEND["paper"])
        needs.add("paper")
    return needs


def _interval(scores: Sequence[float], spread: Spread) -> tuple[float, float]:
    """Return the 95 % interval of a mean, by the spread over seeds of all norms of the task."""
    reach = float(t.isf(0.025, spread.df)) * spread.sd / math.sqrt(len(scores))
    return fmean(scores) - reach, fmean(scores) + reach


def _label(axes: Axes, task: str, metric: Metric, norms: Sequence[str]) -> None:
    axes.set_title(title(task))
    axes.set_xlabel(metric.axis)
    axes.set_yticks(range(len(norms)), [title(norm) for norm in norms])
    axes.set_ylim(len(norms) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    if axes.dataLim.width == 0:  # matplotlib would spread a lone score over a tenth of it, beyond 100 %
        axes.set_xlim(axes.dataLim.x0 - 1, axes.dataLim.x0 + 1)
    axes.xaxis.set_major_locator(MaxNLocator(3))
    axes.xaxis.set_major_formatter("{x:g}")


def _caption(table: Table, tasks: Sequence[str]) -> str:
    study = table.study
    sentences = [
        f"{study.title}. Test scores, at {study.scale} scale, of the weights best in validation:"
        " the mean over seeds with its 95 % confidence interval (Student's t, the spread pooled over norms),"
        " and below it each seed."
    ]
    if table.comparable:
        sentences.append(
            "Open circle: the paper's number, of one seed; none where the paper has the training diverge."
        )
    else:
        sentences.append("Not the paper's data or settings.")
    if missing := [title(task) for task in study.columns if task not in tasks]:
        sentences.append(f"Not run yet: {', '.join(missing)}.")
    return " ".join(sentences)
