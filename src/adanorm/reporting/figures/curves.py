"""Curves of training and validation: all norms of a task, with the paper's own curves beside them."""

from collections.abc import Mapping, Sequence
from itertools import product
from statistics import fmean
from typing import NamedTuple

import numpy as np
from matplotlib import ticker
from matplotlib.axes import Axes

from adanorm.config.experiment import Experiment
from adanorm.config.titles import title
from adanorm.metrics.table import KIND_METRICS
from adanorm.records import reader
from adanorm.records.published import published_curves
from adanorm.reporting.figures import style
from adanorm.reporting.text import seeds

PARTS = {"train": "training", "valid": "validation"}
LONG = 10  # evaluations: the start of a curve with this many may be left out
PUBLISHED_UNITS = {"ptb": "loss (unit not stated)"}  # where the paper's unit may differ from ours
SQUEEZED = 0.25  # share of a panel's range: norms above a larger gap squeeze the others


class Curve(NamedTuple):
    """The curve of one run, or one of the paper's, y by x; a `diverged` run ends early."""

    points: dict[float, float]
    diverged: bool = False
    seed: int = 0


class Curves(NamedTuple):
    """The unit of x (`over`), and the curves by (norm, part), one per seed."""

    over: str
    by_norm: dict[tuple[str, str], list[Curve]]

    def done(self, norm: str, part: str) -> dict[float, list[float]]:
        """Return by x the values of all seeds that did not diverge, where every one has a value."""
        done = [curve.points for curve in self.by_norm.get((norm, part), []) if not curve.diverged]
        shared = sorted(set.intersection(*map(set, done))) if done else ()
        return {at: [points[at] for points in done] for at in shared}

    def means(self, part: str) -> dict[str, dict[float, float]]:
        """Return each norm's mean over seeds, by x; only of norms that have one."""
        norms = dict.fromkeys(norm for norm, _ in self.by_norm)
        means = {
            norm: {at: fmean(ys) for at, ys in self.done(norm, part).items()} for norm in norms
        }
        return {norm: mean for norm, mean in means.items() if mean}


def recorded_curves(cells: Mapping[str, Sequence[Experiment]]) -> Curves:
    """Return the curves of each norm's runs over epochs or updates; failed runs are left out."""
    (first, *_), *_ = cells.values()
    metrics = KIND_METRICS[first.task.kind]
    over = "epoch" if first.training.evaluate_every is None else "update"
    by_norm: dict[tuple[str, str], list[Curve]] = {}
    for norm, run in [(norm, run) for norm, runs in cells.items() for run in runs]:
        result = reader.result(run.folder())
        if result is None or result.status == "failed":
            continue
        rows = reader.record(run.folder()).rows()
        for part in PARTS:
            points = {row[over]: row[f"{part}_{metrics.curve}"] * metrics.factor for row in rows}
            by_norm.setdefault((norm, part), []).append(
                Curve(points, result.status == "diverged", run.seed)
            )
    return Curves(over, by_norm)


@style.figure_style()
def curves(name: str, cells: Mapping[str, Sequence[Experiment]]) -> style.NamedFigure | None:
    """Return the figure of a task's curves, given each norm's runs; None if none has ended."""
    ours = recorded_curves(cells)
    if not ours.by_norm:
        return None
    (run, *_), *_ = cells.values()
    task, unit = run.task.name, KIND_METRICS[run.task.kind].axis
    sources = {"ours": (ours, unit)}
    if theirs := published_curves(task):
        over, by_norm = theirs
        papers = Curves(over, {key: [Curve(dict(points))] for key, points in by_norm.items()})
        sources["paper"] = (papers, PUBLISHED_UNITS.get(task, unit))
    look = style.norm_styles(list(cells))
    figure, grid = style.panels(2 * len(sources), 1.9, _message(task, ours))
    handles: dict[str, style.Handle] = {}
    cut: list[bool] = []
    for (source, part), axes in zip(product(sources, PARTS), grid, strict=True):
        of_source, label = sources[source]
        for norm in cells:
            if of_norm := of_source.by_norm.get((norm, part)):
                handles[title(norm)] = style.seeds_line(
                    axes, of_source.done(norm, part), look[norm]
                )
                for points in (curve.points for curve in of_norm if curve.diverged):
                    x, y = [*points], [*points.values()]
                    axes.plot(x, y, color=look[norm].color, linewidth=0.6)
                    axes.plot(x[-1:], y[-1:], color=look[norm].color, marker="x", markersize=6)
        heading = f"{PARTS[part]}, {source}" if theirs else PARTS[part]
        axes.set(title=heading, xlabel=of_source.over, ylabel=label if part == "train" else "")
        cut.append(_scale(axes))
        if not cut[-1]:
            _enlarge(axes, of_source.means(part), look)
    handles["lowest to highest seed"] = style.BAND_HANDLE
    if any(curve.diverged for of_norm in ours.by_norm.values() for curve in of_norm):
        handles["diverged"] = {"linewidth": 0.6, "marker": "x", "markersize": 6}
    style.legend_below(figure, handles)
    drawn = [[curve.seed for curve in ours.by_norm.get((norm, "valid"), [])] for norm in cells]
    caption = _caption(run, drawn, is_cut=any(cut), has_papers=theirs is not None)
    return style.NamedFigure(name, caption, figure)


def _message(task: str, ours: Curves) -> str:
    """Return the norms with the lowest final training mean and the lowest validation mean, in words."""
    trained = {norm: mean[max(mean)] for norm, mean in ours.means("train").items()}
    validated = {norm: min(mean.values()) for norm, mean in ours.means("valid").items()}
    ends = {"training": trained, "validation": validated}
    best = {part: min(of, key=of.__getitem__) for part, of in ends.items() if of}
    parts = [f"in {part} {title(norm)} ({ends[part][norm]:.3g})" for part, norm in best.items()]
    return f"{title(task)}: {'lowest ' + ', '.join(parts) if parts else 'every run diverges'}"


def _scale(axes: Axes) -> bool:
    """Make y logarithmic if values span more than a factor of ten, and ticks few; return whether y is cut.

    A linear y is cut if the first fifth of a long curve takes most of the range: that start is then
    left out.
    """
    style.count_axis(axes.xaxis)
    low, high = axes.dataLim.intervaly
    if style.log_axis(axes):
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


def _enlarge(
    axes: Axes, means: dict[str, dict[float, float]], look: dict[str, style.NormStyle]
) -> None:
    """Draw an inset with the last values of most norms, if a few norms far above squeeze them."""
    last = sorted(mean[max(mean)] for mean in means.values())
    below = max(range(1, len(last)), key=lambda n: last[n] - last[n - 1], default=0)
    low, high = axes.get_ylim()
    is_squeezed = below > len(last) / 2 and last[below] - last[below - 1] > SQUEEZED * (high - low)
    if not is_squeezed or axes.get_yscale() == "log":
        return
    axes.set_ylim(low, low + 1.5 * (high - low))
    inset = axes.inset_axes((0.55, 0.66, 0.45, 0.27))
    for norm, mean in means.items():
        if mean[max(mean)] < last[below]:
            late = [*mean][-2:]
            inset.plot(
                late, [mean[at] for at in late], color=look[norm].color, marker=look[norm].marker
            )
    inset.set_title("the lowest, enlarged", fontsize=6, pad=2)
    inset.tick_params(labelsize=6, labelbottom=False)
    inset.yaxis.set_major_locator(ticker.MaxNLocator(3))


def _caption(
    run: Experiment, drawn: Sequence[Sequence[int]], *, is_cut: bool, has_papers: bool
) -> str:
    sentences = [
        f"{title(run.task.name)}, {run.scale} scale: means over {seeds(drawn)}.",
        "The steep start is left out." if is_cut else "",
        "The paper's curves are of one seed, read off the authors' poster." if has_papers else "",
        "Our runs do not have the paper's data and settings." if run.scale != "paper" else "",
    ]
    return " ".join(filter(None, sentences))
