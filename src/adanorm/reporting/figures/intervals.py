"""Test scores with their intervals: a panel a task, the norms below each other, the paper's beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from adanorm.config.titles import title
from adanorm.metrics.table import Metric
from adanorm.reporting.figures.style import WIDTH, NamedFigure, NormStyle, figure_style, norm_styles
from adanorm.reporting.tables.table import Table
from adanorm.verdicts.cell import Cell
from adanorm.verdicts.variance import Spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SEED = "0.45"
LEGEND: dict[str, dict[str, Any]] = {
    "mean, 95 % interval": {"color": SEED, "marker": "o"},
    "one seed": {"color": SEED, "marker": "o", "linestyle": ""},
    "seed": {"color": SEED, "marker": "o", "markersize": 2, "markeredgewidth": 0, "linestyle": ""},
    "paper": {"color": "black", "marker": "o", "markersize": 5.5, "markerfacecolor": "none", "linestyle": ""},
}


def norm_scores(name: str, table: Table) -> NamedFigure | None:
    """Return the test scores of a study's norms on the tasks that have runs; None where none has."""
    study = table.study
    ended = {place: cell for place, cell in table.cells.items() if cell is not None and cell.results}
    tasks = [task for task in study.columns if any((norm, task) in ended for norm in study.rows)]
    if not tasks:
        return None
    look = norm_styles(list(study.rows))
    columns = min(2, len(tasks))
    rows = math.ceil(len(tasks) / columns)
    needs: set[str] = set()
    with figure_style():
        from matplotlib.figure import Figure
        from matplotlib.lines import Line2D

        figure = Figure(figsize=(WIDTH, 0.5 + rows * (0.65 + 0.17 * len(study.rows))))
        figure.suptitle(f"Test scores, {study.scale} scale", fontsize=8, fontweight="bold")
        grid = figure.subplots(rows, columns, squeeze=False, sharey=True)
        for task, axes in zip(tasks, grid.flat, strict=False):
            for height, norm in enumerate(study.rows):
                if cell := ended.get((norm, task)):
                    paper = cell.paper.value if cell.paper and table.is_compared(norm, task) else None
                    spread = table.variance(task).within
                    needs |= _draw(axes, height, cell, paper, look[norm], spread)
            _label(axes, task, table.metric_of(task), list(study.rows))
        for axes in grid.flat[len(tasks) :]:
            axes.set_axis_off()
        handles = [Line2D([], [], label=text, **LEGEND[text]) for text in LEGEND if text in needs]
        figure.legend(handles=handles, loc="outside lower center", ncols=3, handlelength=1.6, columnspacing=1)
    return NamedFigure(name, _caption(table, tasks), figure)


def _draw(
    axes: Axes, height: int, cell: Cell, paper: float | None, look: NormStyle, spread: Spread | None
) -> set[str]:
    """Draw a cell and return which entries of the legend it needs."""
    needs = set()
    dot: dict[str, Any] = {"color": look.color, "marker": look.marker}
    if diverged := cell.count("diverged"):
        text = f"diverges ({diverged}/{len(cell.results)})"
        axes.text(0.02, height, text, transform=axes.get_yaxis_transform(), va="center")
    elif len(cell.scores) > 1:
        if spread is not None:  # none where no run of the column learned
            axes.plot(_interval(cell.scores, spread), [height, height], color=look.color)
            needs.add("mean, 95 % interval")
        axes.plot(fmean(cell.scores), height, **dot)
        axes.scatter(cell.scores, [height + 0.3] * len(cell.scores), s=4, color=SEED, linewidths=0)
        needs.add("seed")
    elif cell.scores:
        axes.plot(cell.scores, [height], **dot)
        needs.add("one seed")
    if paper is not None:
        axes.plot(paper, height, **LEGEND["paper"])
        needs.add("paper")
    return needs


def _interval(scores: Sequence[float], spread: Spread) -> tuple[float, float]:
    """Return the 95 % interval of a mean, by the spread over seeds of all norms of the task."""
    from scipy.stats import t

    reach = float(t.isf(0.025, spread.df)) * spread.sd / math.sqrt(len(scores))
    return fmean(scores) - reach, fmean(scores) + reach


def _label(axes: Axes, task: str, metric: Metric, norms: Sequence[str]) -> None:
    from matplotlib.ticker import MaxNLocator

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
