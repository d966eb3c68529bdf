"""Figures of test scores: rows with intervals, leagues, and lines over a setting."""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise, product
from statistics import fmean
from typing import NamedTuple, TypeAlias

import numpy as np
from matplotlib import ticker
from matplotlib.axes import Axes
from scipy.special import stdtrit

from adanorm.config.titles import METRICS, counted, listed, task_metric, title
from adanorm.reporting.figures import style
from adanorm.reporting.tables.answers import SIZES
from adanorm.reporting.tables.table import Table, TaskColumn
from adanorm.reporting.text import seeds
from adanorm.stats.variance import Spread
from adanorm.studies.study import Study, StudyRow
from adanorm.verdicts.cell import Cell
from adanorm.verdicts.quantities import Quantity
from adanorm.verdicts.task_league import TaskLeague

BAR: style.Drawn = {"color": "0.2", "marker": "o"}
MARKS = {"undefined": "o", "a run diverges or fails": "x", "a run does not learn": "v"}


def drawn_scores(cell: Cell | None, quantity: Quantity = "test") -> dict[int, float]:
    """Return a cell's test scores, or another quantity, by seed; empty if a run diverged."""
    if cell is None or cell.count("diverged"):
        return {}
    return cell.values(quantity)


@style.figure_style()
def norm_scores(name: str, table: Table) -> style.NamedFigure | None:
    """Return the scores of a study's rows, grouped by setting; None if no task has runs."""
    rows = table.study.rows
    columns = table.begun
    if not columns:
        return None
    heights, labels = _row_heights(table.study)
    styles = style.norm_styles(row.norm for row in rows.values())
    height = 0.6 + 0.17 * len(rows)
    figure, grid = style.panels(
        columns,
        height,
        _best(table),
        across=3,
        sharey=True,
    )
    has_papers = False
    for column, axes in grid:
        spread = column.variance.within
        for row, y in heights.items():
            cell = column.cells.get(row)
            if cell is None or not cell.results:
                continue
            _draw(
                axes,
                y,
                cell,
                styles[rows[row].norm],
                spread,
            )
            if cell.paper and table.is_compared(row, column.task):
                has_papers = True
                if cell.paper.value is not None:  # above the row: it hides no mean
                    axes.plot(
                        cell.paper.value,
                        y - 0.25,
                        **style.PAPER,
                    )
        _label(
            axes,
            column,
            labels,
        )
    handles: style.Handles = {}
    if len(labels) < len(rows):
        for norm, drawn in styles.items():
            handles[title(norm)] = drawn.point
    handles["mean, 95 % interval"] = {
        "color": "0.45",
        "marker": "o",
    }
    handles["seed"] = style.SEED
    if has_papers:
        handles["the paper's number"] = style.PAPER
    style.legend_below(figure, handles)
    cells = [(task, cell) for (_, task), cell in table.cells.items() if cell and cell.results]
    return style.NamedFigure(
        name,
        _caption(table, cells),
        figure,
    )


def _row_heights(
    study: Study,
) -> tuple[dict[str, float], list[str]]:
    """Return the y of each row, and the labels of y = 0, 1, ...

    If a study runs several norms under each of several settings, the labels are the settings.
    """
    rows = study.rows
    settings = list(dict.fromkeys(row.overrides for row in rows.values()))
    norms = list(dict.fromkeys(row.norm for row in rows.values()))
    count = len(norms)
    heights = {}
    if len(settings) == 1 or len(settings) * count != len(rows):
        for y, label in enumerate(rows):
            heights[label] = float(y)
        return heights, list(map(title, rows))
    labels = [""] * len(settings)
    for label, row in rows.items():
        y = settings.index(row.overrides)
        from_middle = norms.index(row.norm) - (count - 1) / 2
        heights[label] = y + 0.6 / count * from_middle
        setting = label.removeprefix(row.norm).removeprefix(title(row.norm))
        labels[y] = labels[y] or setting.lstrip(" ,")
    return heights, labels


def _draw(
    axes: Axes,
    y: float,
    cell: Cell,
    drawn: style.NormStyle,
    spread: Spread | None,
) -> None:
    """Draw a row: how many runs were lost, the mean with its interval, and a dot per seed."""
    if cell.setback:
        axes.text(
            0.02,
            y,
            cell.setback,
            transform=axes.get_yaxis_transform(),
            va="bottom",
        )
    scores = list(drawn_scores(cell).values())
    if not scores:
        return
    mean = fmean(scores)
    count = len(scores)
    if spread is not None and count > 1:  # None if no row without setback has two seeds
        reach = float(stdtrit(spread.df, 0.975)) * spread.sd / math.sqrt(count)
        axes.plot(
            [mean - reach, mean + reach],
            [y, y],
            color=drawn.color,
        )
    axes.plot(
        mean,
        y,
        markersize=4,
        **drawn.point,
    )
    axes.scatter(
        scores,
        [y + 0.17] * count,
        s=5,
        color="0.45",
        linewidths=0,
    )


def _label(axes: Axes, column: TaskColumn, labels: Sequence[str]) -> None:
    axes.set(title=column.title, xlabel=column.metric.axis)
    style.name_rows(axes, labels)
    if axes.dataLim.width == 0:  # for one score matplotlib's axis would reach beyond 100 %
        axes.set_xlim(axes.dataLim.x0 - 1, axes.dataLim.x0 + 1)
    axes.xaxis.set_major_locator(ticker.MaxNLocator(4))
    axes.xaxis.set_major_formatter("{x:g}")


def _best(table: Table) -> str:
    """Return in words the row that is significantly best on each task, and where none is."""
    parts = []
    without = []
    for column in table.begun:
        if column.best is None:
            without.append(column.name)
        else:
            parts.append(f"{title(column.best)} is the best on {column.name}")
    if without:
        parts.append(f"no row beats all others on {listed(without)}")
    return f"{table.study.title}: {'; '.join(parts)}"


def _caption(
    table: Table,
    drawn: Sequence[tuple[str, Cell]],
    more: Iterable[str] = (),
) -> str:
    """Return the caption for the drawn cells by task: scale, seeds and `more` sentences."""
    study = table.study
    by_cell = [drawn_scores(cell, quantity) for (_, cell), quantity in product(drawn, study.draws)]
    quantities = [
        METRICS[quantity].label if quantity in METRICS else "test scores"
        for quantity in study.draws
    ]
    about = f"{listed(quantities)} at {study.scale} scale, {seeds(by_cell)}"
    sentences = [f"{study.title}: {about}.", *more]
    tasks = {task for task, _ in drawn}
    missing = [title(task, study.scale) for task in study.columns if task not in tasks]
    if missing:
        sentences.append(f"Not run yet: {', '.join(missing)}.")
    if not table.comparable:
        sentences.append("These runs do not have the paper's data and settings.")
    return " ".join(sentences)


@style.figure_style()
def league_figure(name: str, leagues: Sequence[TaskLeague]) -> style.NamedFigure | None:
    """Return one panel per task, best mean on top, one bar per group not told apart.

    None without leagues.
    """
    if not leagues:
        return None
    counts = []
    most = 0
    for task_league in leagues:
        league = task_league.league
        pairs = counted(len(league.pairs), "pair")
        counts.append(f"{len(league.told_apart)} of {pairs} on {title(task_league.task)}")
        most = max(most, len(league.scores))
    message = f"Norms that are told apart: {', '.join(counts)}"
    figure, grid = style.panels(
        leagues,
        0.75 + 0.17 * most,
        message,
        across=3,
    )
    for task_league, axes in grid:
        _draw_league(axes, task_league)
    handles: style.Handles = {
        "mean": {"marker": "D", "linestyle": ""},
        "seed": style.SEED,
        "not told apart": BAR,
    }
    style.legend_below(figure, handles)
    caption = (
        "Test scores of each norm, the best mean on top. The order is no rank: norms on one bar are"
        " not told apart. Pairs share seeds; p is corrected over the pairs of a task (Holm)."
    )
    return style.NamedFigure(
        name,
        caption,
        figure,
    )


def _draw_league(axes: Axes, task_league: TaskLeague) -> None:
    league = task_league.league
    metric = task_metric(task_league.task)
    norms = list(league.scores)
    for y, (norm, drawn) in enumerate(style.norm_styles(norms).items()):
        scores = [metric.sign * score for score in league.scores[norm].values()]
        axes.plot(
            scores,
            [y + 0.2] * len(scores),
            **style.SEED,
        )
        axes.plot(
            fmean(scores),
            y,
            markersize=4,
            **drawn.point,
        )
    beside = axes.get_yaxis_transform()
    for index, group in enumerate(league.groups):
        x = [1.04 + 0.06 * index] * len(group)
        axes.plot(
            x,
            list(map(norms.index, group)),
            **BAR,
            clip_on=False,
            transform=beside,
        )
    size = SIZES[task_league.plan.scale]
    axes.set(title=f"{title(task_league.task)}\n{size}", xlabel=metric.axis)
    style.name_rows(axes, map(title, norms))


class Point(NamedTuple):
    """A row of a study at its value of the setting, with its cell."""

    row: StudyRow
    cell: Cell | None

    @property
    def setback(self) -> str:
        """Why the point has no mean, or a mean with runs that did not learn; '' otherwise."""
        if self.row.undefined:
            return "undefined"
        if self.cell is None or not self.cell.results:
            return ""
        if not drawn_scores(self.cell):
            return "a run diverges or fails"
        return "a run does not learn" if self.cell.unlearned else ""


Points: TypeAlias = dict[float, Point]  # by the value of the setting, the lowest first


class Panel(NamedTuple):
    """A quantity on a task over the setting, for the rows that share a label; lines by norm."""

    column: TaskColumn
    label: str | None
    quantity: Quantity
    lines: dict[str, Points]

    @property
    def cells(self) -> list[Cell]:
        """The cells with planned runs, line by line."""
        points = [point for line in self.lines.values() for point in line.values()]
        return [point.cell for point in points if point.cell]

    @property
    def begun(self) -> bool:
        """Whether there is anything to draw."""
        if self.quantity == "test":
            return any(cell.results for cell in self.cells)
        return any(drawn_scores(cell, self.quantity) for cell in self.cells)


@style.figure_style()
def over_setting(name: str, table: Table) -> style.NamedFigure | None:
    """Return the mean test scores of a study's norms over its setting; None if none has run.

    A point without a mean, or with runs that did not learn, has one of MARKS on the lower edge.
    """
    study = table.study
    panels = _panels(table)
    if not panels:
        return None
    styles = style.norm_styles([norm for panel in panels for norm in panel.lines])
    message = _course(table, panels) if "test" in study.draws else study.title
    figure, grid = style.panels(
        panels,
        2.0,
        message,
        across=2,
    )
    handles: style.Handles = {}
    alike: dict[
        tuple[str, Quantity], Axes
    ] = {}  # panels of one quantity on a task share their y axis
    for panel, axes in grid:
        first = alike.setdefault((panel.column.task, panel.quantity), axes)
        if first is not axes:
            axes.sharey(first)
        for norm, points in panel.lines.items():
            scores = {}
            for at, point in points.items():
                values = drawn_scores(point.cell, panel.quantity).values()
                if values:
                    scores[at] = values
            handles[title(norm)] = style.seeds_line(
                axes,
                scores,
                styles[norm],
            )
        for index, (norm, points) in enumerate(panel.lines.items()):
            for at, point in points.items():
                setback = point.setback
                if not setback:
                    continue
                mark = {
                    **style.OPEN,
                    "marker": MARKS[setback],
                    "clip_on": False,
                }
                handles[setback] = mark
                axes.plot(
                    at,
                    0.03 + 0.05 * index,
                    color=styles[norm].color,
                    transform=axes.get_xaxis_transform(),
                    **mark,
                )
        _label_setting(axes, study, panel)
    drawn = [(panel.column.task, cell) for panel in panels for cell in panel.cells]
    if any(len(cell.scores) > 1 for _, cell in drawn):
        handles["lowest to highest seed"] = style.BAND_HANDLE
    style.legend_below(figure, handles)
    undefined = [row for row in study.rows.values() if row.undefined]
    reasons = dict.fromkeys(f"{title(row.norm)}: {row.undefined}." for row in undefined)
    return style.NamedFigure(name, _caption(table, drawn, reasons), figure)


def _panels(table: Table) -> list[Panel]:
    """Return the panels with something to draw.

    Only with lines that have an ended or undefined row.
    """
    study = table.study
    panels = []
    labels = dict.fromkeys(row.panel for row in study.rows.values() if row.panel)
    rows = sorted(study.rows.items(), key=lambda entry: entry[1].at or 0.0)
    for quantity, column, label in product(
        study.draws,
        table.columns.values(),
        labels or [None],
    ):
        lines: dict[str, Points] = {row.line or row.norm: {} for row in study.rows.values()}
        for name, row in rows:
            if row.panel in (label, None):
                points = lines[row.line or row.norm]
                points[row.at or 0.0] = Point(row, column.cells.get(name))
        ended = {norm: points for norm, points in lines.items() if _has_ended(points)}
        panel = Panel(
            column,
            label,
            quantity,
            ended,
        )
        if panel.begun:
            panels.append(panel)
    return panels


def _has_ended(points: Points) -> bool:
    return any(
        point.row.undefined is not None or (point.cell and point.cell.results)
        for point in points.values()
    )


def _course(table: Table, panels: Sequence[Panel]) -> str:
    """Return in words the norm that is ahead throughout, if any, and the one that moves most."""
    leaders = set()
    means: dict[tuple[str, str], list[float]] = {}  # by norm and task
    for panel in panels:
        sign = panel.column.metric.sign
        by_value: dict[float, dict[str, float]] = {}  # means by norm
        for norm, points in panel.lines.items():
            for at, point in points.items():
                scores = drawn_scores(point.cell).values()
                if scores:
                    mean = fmean(scores)
                    by_value.setdefault(at, {})[norm] = sign * mean
                    means.setdefault((norm, panel.column.task), []).append(mean)
        for by_norm in by_value.values():
            if len(by_norm) > 1:
                leaders.add(max(by_norm, key=by_norm.__getitem__))
    text = f"{table.study.title}: "
    if not means:
        return f"{text}no run has a score"
    if leaders:
        leader = title(*leaders) if len(leaders) == 1 else "none"
        text += f"{leader} is ahead throughout; "
    norm, task = max(means, key=lambda line: float(np.ptp(means[line])))
    metric = table.columns[task].metric
    low = metric.text(min(means[norm, task]))
    high = metric.text(max(means[norm, task]))
    return f"{text}{title(norm)} moves the most, {low} to {high} on {title(task)}"


def _label_setting(axes: Axes, study: Study, panel: Panel) -> None:
    name = panel.column.title
    label = panel.column.metric.axis
    if panel.label:
        name = f"{name}: {panel.label}"
    if panel.quantity in METRICS:
        label = f"{METRICS[panel.quantity].label} (%)"
    axes.set(
        title=name,
        ylabel=label,
        xlabel=study.over or "",
    )
    values = sorted({row.at for row in study.rows.values() if row.at is not None})
    steps = {after - before for before, after in pairwise(values)}
    if values[0] > 0 and len(steps) > 1:
        axes.set_xscale("log", base=2)
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.xaxis.set_minor_locator(ticker.NullLocator())
