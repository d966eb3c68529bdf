"""Curves of training and validation: the norms of a task together, and below them the paper's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from adanorm.config.experiment import Experiment
from adanorm.config.titles import title
from adanorm.metrics.table import KIND_METRICS
from adanorm.records import reader
from adanorm.records.published import published_curves
from adanorm.reporting.figures.style import (
    NamedFigure,
    NormStyle,
    figure_style,
    legend_below,
    norm_styles,
    panels,
    seeds_line,
)

PARTS = {"train": "training", "valid": "validation"}
LONG = 10  # evaluations of a curve whose start may be left out
PUBLISHED_UNITS = {"ptb": "loss (unit not stated)"}  # where it may differ from ours


class Curve(NamedTuple):
    """One run's, or one of the paper's; `diverged` says that it broke off."""

    x: list[float]
    y: list[float]
    diverged: bool = False


class Curves(NamedTuple):
    """What x counts, and the curves by (norm, part), one a seed."""

    over: str
    by_norm: dict[tuple[str, str], list[Curve]]


def recorded_curves(cells: Mapping[str, Sequence[Experiment]]) -> Curves:
    """Return the curves of each norm's runs that are done or diverged, over epochs or updates."""
    (first, *_), *_ = cells.values()
    quantity = KIND_METRICS[first.task.kind].curve
    over = "epoch" if first.training.evaluate_every is None else "update"
    by_norm: dict[tuple[str, str], list[Curve]] = {}
    for norm, runs in cells.items():
        for run in runs:
            result = reader.result(run.folder())
            if result is None or result.status == "failed":
                continue
            rows = reader.metrics(run.folder())
            for part in PARTS:
                y = [row[f"{part}_{quantity.metric}"] * quantity.factor for row in rows]
                curve = Curve([row[over] for row in rows], y, result.status == "diverged")
                by_norm.setdefault((norm, part), []).append(curve)
    return Curves(over, by_norm)


def curves_of_the_paper(task: str) -> Curves | None:
    """Return the curves that the paper shows of a task, or None if it shows none."""
    theirs = published_curves(task)
    if theirs is None:
        return None
    by_norm = {
        key: [Curve([x for x, _ in points], [y for _, y in points])] for key, points in theirs.points.items()
    }
    return Curves(theirs.over, by_norm)


@figure_style()
def curves(name: str, cells: Mapping[str, Sequence[Experiment]]) -> NamedFigure | None:
    """Return the curves of one task's norms, each given with its runs; None where none has ended."""
    ours = recorded_curves(cells)
    if not ours.by_norm:
        return None
    (run, *_), *_ = cells.values()
    task, unit = run.task.name, KIND_METRICS[run.task.kind].curve.label
    rows = {"ours": (ours, unit)}
    if theirs := curves_of_the_paper(task):
        rows["paper"] = (theirs, PUBLISHED_UNITS.get(task, unit))
    look = norm_styles(list(cells))
    heading = f"{title(task)}, {run.scale} scale"
    figure, grid = panels(2 * len(rows), 2, 1.0 + 1.75 * len(rows), heading=heading)
    handles: dict[str, Line2D] = {}
    cut: list[bool] = []
    drawn = ((source, part) for source in rows for part in PARTS)
    for (source, part), axes in zip(drawn, grid, strict=True):
        shown, label = rows[source]
        for norm in cells:
            if seeds := shown.by_norm.get((norm, part)):
                handles[title(norm)] = _draw(axes, seeds, look[norm])
        axes.set_title(f"{PARTS[part]}, {source}" if theirs else PARTS[part])
        axes.set_xlabel(shown.over)
        if part == "train":
            axes.set_ylabel(label)
        cut.append(_scale(axes))
    legend_below(figure, handles)
    caption = _caption(run, cells, ours)
    start = " A steep start, the first fifth, is left out of the frame." if any(cut) else ""
    return NamedFigure(name, caption + start, figure)


def _draw(axes: Axes, seeds: Sequence[Curve], look: NormStyle) -> Line2D:
    """Draw a norm's seeds and return the line that stands for it in the legend."""
    done = [dict(zip(curve.x, curve.y, strict=True)) for curve in seeds if not curve.diverged]
    x = sorted(set[float]().union(*done).intersection(*done))
    line = seeds_line(axes, x, [[curve[at] for curve in done] for at in x], look)
    for curve in (curve for curve in seeds if curve.diverged):
        axes.plot(curve.x, curve.y, color=look.color, linewidth=0.6)
        axes.plot(curve.x[-1:], curve.y[-1:], color=look.color, marker="x", markersize=6)
    return line


def _scale(axes: Axes) -> bool:
    """Make the scale logarithmic where values span more than a factor of ten, and ticks few.

    Elsewhere the first fifth of a long curve is left out of the frame where it has most of the whole range;
    return whether it was.
    """
    axes.xaxis.set_major_locator(ticker.MaxNLocator(3, integer=True))
    axes.xaxis.set_major_formatter(ticker.EngFormatter(sep=""))  # 400k updates
    low, high = axes.dataLim.intervaly
    if low > 0 and high / low > 10:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_locator(ticker.NullLocator())
        axes.yaxis.set_major_formatter("{x:g}")
        return False
    lines = [np.asarray(line.get_xydata(), float) for line in axes.lines]
    points = np.concatenate([np.empty((0, 2)), *lines])
    first, last = axes.dataLim.intervalx
    late = points[points[:, 0] >= first + (last - first) / 5, 1]
    is_steep = max(map(len, lines), default=0) >= LONG and bool(np.ptp(late) < (high - low) / 3)
    if is_steep:
        margin = 0.05 * np.ptp(late)
        axes.set_ylim(late.min() - margin, late.max() + margin)
    return is_steep


def _caption(run: Experiment, cells: Mapping[str, Sequence[Experiment]], ours: Curves) -> str:
    counts = {norm: ours.by_norm.get((norm, "valid"), []) for norm in cells}
    wanted = max(map(len, cells.values()))
    label = KIND_METRICS[run.task.kind].curve.label
    sentences = [
        f"{title(run.task.name)} at {run.scale} scale: {label} by {ours.over}; means over seeds, in bands"
        " from the lowest to the highest. Training values are means since the evaluation before."
    ]
    if any(len(seeds) < wanted for seeds in counts.values()):
        made = ", ".join(f"{title(norm)} {len(seeds)}" for norm, seeds in counts.items())
        sentences.append(f"Seeds run so far, of {wanted}: {made}.")
    if any(curve.diverged for seeds in counts.values() for curve in seeds):
        sentences.append("A diverged run is a thin line that ends in a cross.")
    if curves_of_the_paper(run.task.name):
        sentences.append("Below, the paper's curves, of one seed, read off the authors' poster.")
    if run.scale != "paper":
        sentences.append("Ours are not of the paper's data or settings.")
    return " ".join(sentences)
