"""Curves of training and validation of all norms of a task, beside the paper's own curves."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise, product
from statistics import fmean
from typing import NamedTuple

import numpy as np
from matplotlib import ticker
from matplotlib.axes import Axes

from adanorm.config.experiment import Experiment
from adanorm.config.titles import KIND_METRICS, title
from adanorm.records import reader
from adanorm.records.published import published_curves
from adanorm.reporting.figures import style
from adanorm.reporting.text import seeds

PARTS = {"train": "training", "valid": "validation"}
LONG = 10  # evaluations: the start of a curve with this many may be left out
PUBLISHED_UNITS = {"ptb": "loss (unit not stated)"}  # where the paper's unit may differ from ours
SQUEEZED = 0.25  # share of a panel's range: norms above a larger gap squeeze the others
CROSS: style.Drawn = {"marker": "x", "markersize": 6}


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
        curves = self.by_norm.get((norm, part), [])
        done = [curve.points for curve in curves if not curve.diverged]
        if not done:
            return {}
        shared = set.intersection(*map(set, done))
        values = {}
        for x in sorted(shared):
            values[x] = [points[x] for points in done]
        return values

    def means(self, part: str) -> dict[str, dict[float, float]]:
        """Return each norm's mean over seeds, by x; only of norms that have one."""
        means = {}
        for norm in dict.fromkeys(norm for norm, _ in self.by_norm):
            values = self.done(norm, part)
            if values:
                means[norm] = {x: fmean(ys) for x, ys in values.items()}
        return means


def recorded_curves(
    cells: Mapping[str, Sequence[Experiment]],
) -> Curves:
    """Return the curves of each norm's runs over epochs or updates; failed runs are left out."""
    first = _first_run(cells)
    metrics = KIND_METRICS[first.task.kind]
    over = "epoch" if first.training.evaluate_every is None else "update"
    by_norm: dict[tuple[str, str], list[Curve]] = {}
    for norm, runs in cells.items():
        for run in runs:
            result = reader.result(run.folder())
            if result is None or result.status == "failed":
                continue
            rows = reader.record(run.folder()).rows()
            for part in PARTS:
                name = f"{part}_{metrics.curve}"
                points = {row[over]: row[name] * metrics.factor for row in rows}
                curve = Curve(
                    points,
                    result.status == "diverged",
                    run.seed,
                )
                by_norm.setdefault((norm, part), []).append(curve)
    return Curves(over, by_norm)


def _first_run(
    cells: Mapping[str, Sequence[Experiment]],
) -> Experiment:
    return next(iter(cells.values()))[0]


@style.figure_style()
def curves(
    name: str, cells: Mapping[str, Sequence[Experiment]], *, repeated: str = "seed"
) -> style.NamedFigure | None:
    """Return the figure of a task's curves, given each norm's runs; None if none has ended.

    `repeated` names what differs between the runs of a norm.
    """
    ours = recorded_curves(cells)
    if not ours.by_norm:
        return None
    run = _first_run(cells)
    task = run.task.name
    unit = KIND_METRICS[run.task.kind].axis
    sources = {"ours": (ours, unit)}
    papers = published_curves(task)
    if papers:
        over, points = papers
        drawn_points = {key: [Curve(dict(pairs))] for key, pairs in points.items()}
        sources["paper"] = Curves(over, drawn_points), PUBLISHED_UNITS.get(task, unit)
    styles = style.norm_styles(cells)
    figure, grid = style.panels(
        list(product(sources, PARTS)),
        1.9,
        _message(task, ours),
    )
    handles: style.Handles = {}
    is_cut = False
    for (source, part), axes in grid:
        drawn, label = sources[source]
        for norm in cells:
            curves_of_norm = drawn.by_norm.get((norm, part))
            if curves_of_norm:
                done = drawn.done(norm, part)
                handles[title(norm)] = style.seeds_line(
                    axes,
                    done,
                    styles[norm],
                )
                _draw_diverged(
                    axes,
                    curves_of_norm,
                    styles[norm].color,
                )
        heading = f"{PARTS[part]}, {source}" if papers else PARTS[part]
        axes.set(
            title=heading,
            xlabel=drawn.over,
            ylabel=label if part == "train" else "",
        )
        if _scale(axes):
            is_cut = True
        else:
            _enlarge(
                axes,
                drawn.means(part),
                styles,
            )
    handles[f"lowest to highest {repeated}"] = style.BAND_HANDLE
    if any(curve.diverged for by_seed in ours.by_norm.values() for curve in by_seed):
        handles["diverged"] = {"linewidth": 0.6, **CROSS}
    style.legend_below(figure, handles)
    caption = _caption(
        run,
        ours,
        repeated,
        is_cut=is_cut,
        has_papers=papers is not None,
    )
    return style.NamedFigure(
        name,
        caption,
        figure,
    )


def _draw_diverged(axes: Axes, curves: Iterable[Curve], color: str) -> None:
    """Draw each diverged run as a thin line that ends in a cross."""
    for curve in curves:
        if curve.diverged:
            x = list(curve.points)
            y = list(curve.points.values())
            axes.plot(
                x,
                y,
                color=color,
                linewidth=0.6,
            )
            axes.plot(
                x[-1:],
                y[-1:],
                color=color,
                **CROSS,
            )


def _message(task: str, ours: Curves) -> str:
    """Return in words the norms that end lowest in training and reach lowest in validation."""
    trained = {norm: mean[max(mean)] for norm, mean in ours.means("train").items()}
    validated = {norm: min(mean.values()) for norm, mean in ours.means("valid").items()}
    parts = []
    for part, ends in zip(PARTS.values(), (trained, validated), strict=True):
        if ends:
            best = min(ends, key=ends.__getitem__)
            parts.append(f"in {part} {title(best)} ({ends[best]:.3g})")
    text = f"lowest {', '.join(parts)}" if parts else "every run diverges"
    return f"{title(task)}: {text}"


def _scale(axes: Axes) -> bool:
    """Make y logarithmic if values span more than a factor of ten, and ticks few.

    Return whether y is cut.

    A linear y is cut if the first fifth of a long curve takes most of the range: that start is
    then left out.
    """
    style.count_axis(axes.xaxis)
    low, high = axes.dataLim.intervaly
    if style.log_axis(axes):
        return False
    lines = [np.asarray(line.get_xydata(), float) for line in axes.lines]
    if max(map(len, lines), default=0) < LONG:
        return False
    points = np.concatenate(lines)
    first, last = axes.dataLim.intervalx
    late = points[points[:, 0] >= first + (last - first) / 5, 1]
    if np.ptp(late) >= (high - low) / 3:
        return False
    margin = 0.05 * np.ptp(late)
    axes.set_ylim(late.min() - margin, late.max() + margin)
    return True


def _enlarge(
    axes: Axes,
    means: dict[str, dict[float, float]],
    styles: Mapping[str, style.NormStyle],
) -> None:
    """Draw an inset with the last values of most norms, if a few norms far above squeeze them."""
    last = sorted(mean[max(mean)] for mean in means.values())
    gaps = [after - before for before, after in pairwise(last)]
    if not gaps or axes.get_yscale() == "log":
        return
    below = 1 + gaps.index(max(gaps))  # number of norms below the largest gap
    low, high = axes.get_ylim()
    if below <= len(last) / 2 or max(gaps) <= SQUEEZED * (high - low):
        return
    axes.set_ylim(low, low + 1.5 * (high - low))
    inset = axes.inset_axes((0.55, 0.66, 0.45, 0.27))
    for norm, mean in means.items():
        if mean[max(mean)] < last[below]:
            late = list(mean)[-2:]
            drawn = styles[norm]
            inset.plot(
                late,
                [mean[x] for x in late],
                color=drawn.color,
                marker=drawn.marker,
            )
    inset.set_title(
        "the lowest, enlarged",
        fontsize=6,
        pad=2,
    )
    inset.tick_params(labelsize=6, labelbottom=False)
    inset.yaxis.set_major_locator(ticker.MaxNLocator(3))


def _caption(
    run: Experiment,
    ours: Curves,
    repeated: str,
    *,
    is_cut: bool,
    has_papers: bool,
) -> str:
    drawn = []
    for (_, part), by_seed in ours.by_norm.items():
        if part == "valid":
            drawn.append([curve.seed for curve in by_seed])
    means = f"means over {seeds(drawn)}"
    if repeated != "seed":
        counts = sorted({len(by_seed) for by_seed in drawn})
        numbers = " to ".join(map(str, dict.fromkeys([counts[0], counts[-1]])))
        means = f"means over {numbers} {repeated}s with {seeds(drawn)}"
    sentences = [f"{title(run.task.name)}, {run.scale} scale: {means}."]
    if is_cut:
        sentences.append("The steep start is left out.")
    if has_papers:
        sentences.append("The paper's curves are of one seed, read off the authors' poster.")
    if run.scale != "paper":
        sentences.append("Our runs do not have the paper's data and settings.")
    return " ".join(sentences)
