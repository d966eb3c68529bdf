"""Figures of test scores: rows with intervals, leagues, and lines over a setting."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from statistics import fmean
from typing import Any, TypeAlias

from matplotlib import ticker
from matplotlib.axes import Axes
from scipy.stats import t

from adanorm.config.titles import counted, task_metric, title
from adanorm.metrics.table import METRICS
from adanorm.reporting.figures import style
from adanorm.reporting.tables.claims import SIZES
from adanorm.reporting.tables.formats import tasks_with_runs
from adanorm.reporting.tables.table import Table
from adanorm.reporting.text import seeds
from adanorm.stats.variance import Spread
from adanorm.studies.study import Study, StudyRow
from adanorm.verdicts.cell import Cell, Quantity, value_of
from adanorm.verdicts.sentences import listed
from adanorm.verdicts.task_league import TaskLeague

Panel: TypeAlias = tuple[
    str, str | None, Quantity
]  # a task, the label that its rows share, a quantity
Points: TypeAlias = dict[
    str, dict[float, tuple[StudyRow, Cell | None]]
]  # by line and value of the setting
BAR: dict[str, Any] = {"color": "0.2", "marker": "o"}
MARKS = {"undefined": "o", "a run diverges or fails": "x", "a run does not learn": "v"}


@style.figure_style()
def norm_scores(name: str, table: Table) -> style.NamedFigure | None:
    """Return the scores of a study's rows, grouped by setting; None if no task has runs."""
    study, tasks = table.study, tasks_with_runs(table)
    ended = {address: cell for address, cell in table.cells.items() if cell and cell.results}
    if not tasks:
        return None
    heights, labels = _row_heights(study)
    look = style.norm_styles(list(dict.fromkeys(row.norm for row in study.rows.values())))
    height, message = 0.6 + 0.17 * len(study.rows), _best(table, tasks)
    figure, grid = style.panels(len(tasks), height, message, across=3, sharey=True)
    for task, axes in zip(tasks, grid, strict=True):
        spread = table.variance(task).within
        for row, y in heights.items():
            if cell := ended.get((row, task)):
                _draw(axes, y, cell, look[study.rows[row].norm], spread)
                if cell.paper and cell.paper.value is not None and table.is_compared(row, task):
                    axes.plot(
                        cell.paper.value, y - 0.25, **style.PAPER
                    )  # above the row: it hides no mean
        _label(axes, table, task, labels)
    handles: dict[str, style.Handle] = {}
    if len(labels) < len(study.rows):
        handles |= {title(n): {"color": of.color, "marker": of.marker} for n, of in look.items()}
    handles |= {"mean, 95 % interval": {"color": "0.45", "marker": "o"}, "seed": style.SEED}
    if any(cell.paper and table.is_compared(*address) for address, cell in ended.items()):
        handles["the paper's number"] = style.PAPER
    style.legend_below(figure, handles)
    return style.NamedFigure(
        name, _caption(table, [(t, cell) for (_, t), cell in ended.items()]), figure
    )


def _row_heights(study: Study) -> tuple[dict[str, float], list[str]]:
    """Return the y of each row, and the labels of y = 0, 1, ...

    If a study runs each of several norms under each of several settings, the labels are the
    settings.
    """
    settings = list(dict.fromkeys(row.overrides for row in study.rows.values()))
    norms = list(dict.fromkeys(row.norm for row in study.rows.values()))
    if len(settings) == 1 or len(settings) * len(norms) != len(study.rows):
        return {label: float(y) for y, label in enumerate(study.rows)}, [*map(title, study.rows)]
    heights, labels = {}, [""] * len(settings)
    for label, row in study.rows.items():
        y, turn = settings.index(row.overrides), norms.index(row.norm)
        heights[label] = y + 0.6 / len(norms) * (turn - (len(norms) - 1) / 2)
        labels[y] = labels[y] or label.removeprefix(row.norm).removeprefix(title(row.norm)).lstrip(
            " ,"
        )
    return heights, labels


def _draw(axes: Axes, y: float, cell: Cell, look: style.NormStyle, spread: Spread | None) -> None:
    if cell.setback:
        axes.text(0.02, y, cell.setback, transform=axes.get_yaxis_transform(), va="bottom")
    if scores := [*drawn_scores(cell).values()]:
        mean = fmean(scores)
        if spread is not None and len(scores) > 1:  # None if no row without setback has two seeds
            reach = float(t.isf(0.025, spread.df)) * spread.sd / math.sqrt(len(scores))
            axes.plot([mean - reach, mean + reach], [y, y], color=look.color)
        axes.plot(mean, y, color=look.color, marker=look.marker, markersize=4)
        axes.scatter(scores, [y + 0.17] * len(scores), s=5, color="0.45", linewidths=0)


def _label(axes: Axes, table: Table, task: str, labels: Sequence[str]) -> None:
    axes.set(title=table.column_title(task), xlabel=table.metric_of(task).axis)
    style.name_rows(axes, labels)
    if axes.dataLim.width == 0:  # for one score matplotlib's axis would reach beyond 100 %
        axes.set_xlim(axes.dataLim.x0 - 1, axes.dataLim.x0 + 1)
    axes.xaxis.set_major_locator(ticker.MaxNLocator(4))
    axes.xaxis.set_major_formatter("{x:g}")


def _best(table: Table, tasks: Sequence[str]) -> str:
    """Return in words the row that is significantly best on each task, and the tasks without one."""
    best = {task: table.best(task) for task in tasks}
    parts = [
        f"{title(row)} is the best on {title(task)}"
        for task, row in best.items()
        if row is not None
    ]
    if none := [title(task) for task, row in best.items() if row is None]:
        parts.append(f"no row beats all others on {listed(none)}")
    return f"{table.study.title}: {'; '.join(parts)}"


def _caption(table: Table, drawn: Sequence[tuple[str, Cell]], *more: str) -> str:
    """Return the caption for the drawn cells, each with its task: scale, seeds and `more` sentences."""
    study, tasks = table.study, [task for task, _ in drawn]
    about = seeds(drawn_scores(cell, quantity) for _, cell in drawn for quantity in study.draws)
    missing = [title(task) for task in study.columns if task not in tasks]
    names = listed([METRICS[one].label if one in METRICS else "test scores" for one in study.draws])
    sentences = [
        f"{study.title}: {names} at {study.scale} scale, {about}.",
        *more,
        f"Not run yet: {', '.join(missing)}." if missing else "",
        "" if table.comparable else "These runs do not have the paper's data and settings.",
    ]
    return " ".join(filter(None, sentences))


@style.figure_style()
def league_figure(name: str, leagues: Sequence[TaskLeague]) -> style.NamedFigure | None:
    """Return one panel per task, best mean on top, one bar per group not told apart; None without leagues."""
    if not leagues:
        return None
    counts = [
        f"{len(one.league.told_apart)} of {counted(len(one.league.pairs), 'pair')} on {title(one.task)}"
        for one in leagues
    ]
    height, message = (
        0.75 + 0.17 * max(len(one.league.scores) for one in leagues),
        ", ".join(counts),
    )
    figure, grid = style.panels(
        len(leagues), height, f"Norms that are told apart: {message}", across=3
    )
    for one, axes in zip(leagues, grid, strict=True):
        _draw_league(axes, one)
    handles = {"mean": {"marker": "D", "linestyle": ""}, "seed": style.SEED, "not told apart": BAR}
    style.legend_below(figure, handles)
    caption = (
        "Test scores of each norm, the best mean on top. The order is no rank: norms on one bar are not told"
        " apart. Pairs share seeds; p is corrected over the pairs of a task (Holm)."
    )
    return style.NamedFigure(name, caption, figure)


def _draw_league(axes: Axes, one: TaskLeague) -> None:
    names, metric = list(one.league.scores), task_metric(one.task)
    for y, (norm, look) in enumerate(style.norm_styles(names).items()):
        scores = [metric.sign * score for score in one.league.scores[norm].values()]
        axes.plot(scores, [y + 0.2] * len(scores), **style.SEED)
        axes.plot(fmean(scores), y, color=look.color, marker=look.marker, markersize=4)
    for index, group in enumerate(one.league.groups):
        ys, beside = [names.index(norm) for norm in group], axes.get_yaxis_transform()
        axes.plot([1.04 + 0.06 * index] * len(group), ys, **BAR, clip_on=False, transform=beside)
    axes.set(title=f"{title(one.task)}\n{SIZES[one.scale]}", xlabel=metric.axis)
    style.name_rows(axes, map(title, names))


@style.figure_style()
def over_setting(name: str, table: Table) -> style.NamedFigure | None:
    """Return the mean test scores of a study's norms over its setting; None if none has run.

    A point without a mean, or with runs that did not learn, has one of MARKS on the lower edge.
    """
    panels = _panels(table)
    if not panels:
        return None
    look = style.norm_styles(list(dict.fromkeys(line for of in panels.values() for line in of)))
    message = _course(table, panels) if "test" in table.study.draws else table.study.title
    figure, grid = style.panels(len(panels), 2.0, message, across=2)
    handles: dict[str, style.Handle] = {}
    alike: dict[
        tuple[str, Quantity], Axes
    ] = {}  # panels of one quantity on a task share their y axis
    for (panel, by_norm), axes in zip(panels.items(), grid, strict=True):
        task, _, quantity = panel
        if (first := alike.setdefault((task, quantity), axes)) is not axes:
            axes.sharey(first)
        for norm, points in by_norm.items():
            scores = {
                at: drawn_scores(cell, quantity).values()
                for at, (_, cell) in points.items()
                if cell
            }
            of_runs = {at: of_value for at, of_value in scores.items() if of_value}
            handles[title(norm)] = style.seeds_line(axes, of_runs, look[norm])
        for index, (norm, points) in enumerate(by_norm.items()):
            for at, (row, cell) in points.items():
                if setback := _setback(row, cell):
                    handles[setback] = mark = {
                        **style.OPEN,
                        "marker": MARKS[setback],
                        "clip_on": False,
                    }
                    edge, height = axes.get_xaxis_transform(), 0.03 + 0.05 * index
                    axes.plot(at, height, color=look[norm].color, transform=edge, **mark)
        _label_setting(axes, table, panel)
    points_of = [
        (task, points) for (task, *_), by_norm in panels.items() for points in by_norm.values()
    ]
    drawn = [(task, cell) for task, points in points_of for _, cell in points.values() if cell]
    if any(len(cell.scores) > 1 for _, cell in drawn):
        handles["lowest to highest seed"] = style.BAND_HANDLE
    style.legend_below(figure, handles)
    undefined = [row for row in table.study.rows.values() if row.undefined]
    reasons = dict.fromkeys(f"{title(row.norm)}: {row.undefined}." for row in undefined)
    return style.NamedFigure(name, _caption(table, drawn, *reasons), figure)


def _panels(table: Table) -> dict[Panel, Points]:
    """Return each panel's rows by line, lowest setting first; only lines with an ended or undefined row."""
    study, panels = table.study, dict[Panel, Points]()
    labels: list[str | None] = [
        *dict.fromkeys(row.panel for row in study.rows.values() if row.panel)
    ]
    for quantity, task, label in product(study.draws, study.columns, labels or [None]):
        points: Points = {row.line or row.norm: {} for row in study.rows.values()}
        for name, row in sorted(study.rows.items(), key=lambda entry: entry[1].at or 0.0):
            if row.panel in (label, None):
                points[row.line or row.norm][row.at or 0.0] = row, table.cells[name, task]
        points = {
            line: of for line, of in points.items() if any(_has_ended(*one) for one in of.values())
        }
        cells = (cell for of_line in points.values() for _, cell in of_line.values() if cell)
        if any(
            drawn_scores(cell, quantity) or (quantity == "test" and cell.results) for cell in cells
        ):
            panels[task, label, quantity] = points
    return panels


def _has_ended(row: StudyRow, cell: Cell | None) -> bool:
    return row.undefined is not None or bool(cell and cell.results)


def _setback(row: StudyRow, cell: Cell | None) -> str:
    if row.undefined or cell is None or not cell.results:
        return "undefined" if row.undefined else ""
    unlearned = "a run does not learn" if cell.unlearned else ""
    return unlearned if drawn_scores(cell) else "a run diverges or fails"


def drawn_scores(cell: Cell, quantity: Quantity = "test") -> dict[int, float]:
    """Return a cell's test scores, or another quantity, by seed; empty if a run diverged."""
    runs = zip(cell.runs, cell.results, strict=True) if not cell.count("diverged") else ()
    values = {
        run[0].seed: value_of(*run, quantity, cell.metric)
        for run in runs
        if run[1].status == "done"
    }
    return {seed: value for seed, value in values.items() if value is not None}


def _course(table: Table, panels: Mapping[Panel, Points]) -> str:
    """Return in words the norm that is ahead at every value, if any, and the norm whose mean moves most."""
    leaders: set[str] = set()
    means: dict[tuple[str, str], list[float]] = {}  # by norm and task
    for (task, *_), by_norm in panels.items():
        sign = table.metric_of(task).sign
        at_value: dict[float, dict[str, float]] = {}
        for norm, points in by_norm.items():
            for at, (_, cell) in points.items():
                if cell and (drawn := drawn_scores(cell)):
                    at_value.setdefault(at, {})[norm] = mean = fmean(drawn.values())
                    means.setdefault((norm, task), []).append(mean)
        leaders |= {
            max(of, key=lambda norm: sign * of[norm]) for of in at_value.values() if len(of) > 1
        }
    if not means:
        return f"{table.study.title}: no run has a score"
    leader = title(*leaders) if len(leaders) == 1 else "none"
    ahead = [f"{leader} is ahead throughout"] if leaders else []
    (norm, task), most = max(means.items(), key=lambda entry: max(entry[1]) - min(entry[1]))
    scores = " to ".join(map(table.metric_of(task).text, (min(most), max(most))))
    moves = f"{title(norm)} moves the most, {scores} on {title(task)}"
    return f"{table.study.title}: {'; '.join([*ahead, moves])}"


def _label_setting(axes: Axes, table: Table, panel: Panel) -> None:
    values = sorted({row.at for row in table.study.rows.values() if row.at is not None})
    task, rows, quantity = panel
    name = f"{table.column_title(task)}: {rows}" if rows else table.column_title(task)
    label = f"{METRICS[quantity].label} (%)" if quantity in METRICS else table.metric_of(task).axis
    axes.set(title=name, ylabel=label, xlabel=table.study.over or "")
    steps = {after - before for before, after in pairwise(values)}
    if values[0] > 0 and len(steps) > 1:
        axes.set_xscale("log", base=2)
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.xaxis.set_minor_locator(ticker.NullLocator())
