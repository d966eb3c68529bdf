"""The league of each task's norms: their scores, and a bar through those that cannot be told apart."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes

from adanorm.config.titles import task_metric, title
from adanorm.reporting.answers import SIZES
from adanorm.reporting.figures import style
from adanorm.verdicts.task_league import TaskLeague

BAR: dict[str, Any] = {"color": "0.2", "marker": "o"}


@style.figure_style()
def league_figure(name: str, leagues: Sequence[TaskLeague]) -> style.NamedFigure | None:
    """Return one panel per task, the best mean on top, one bar per group; None without a league."""
    if not leagues:
        return None
    told = [
        f"{len(one.league.told_apart)} of {len(one.league.pairs)} pairs on {title(one.task)}"
        for one in leagues
    ]
    most = max(len(one.league.scores) for one in leagues)
    message = f"Norms that are told apart: {', '.join(told)}"
    figure, grid = style.panels(len(leagues), 0.6 + 0.17 * most, message, across=3)
    for one, axes in zip(leagues, grid, strict=True):
        _draw(axes, one)
    style.legend_below(
        figure, {"mean": {"marker": "D", "linestyle": ""}, "seed": style.SEED, "not told apart": BAR}
    )
    caption = (
        "Test scores of each norm, the best mean on top, which is no rank: norms on one bar are not told"
        " apart. Pairs share seeds; p is corrected over the pairs of a task (Holm)."
    )
    return style.NamedFigure(name, caption, figure)


def _draw(axes: Axes, one: TaskLeague) -> None:
    names, metric = list(one.league.scores), task_metric(one.task)
    for place, (norm, look) in enumerate(style.norm_styles(names).items()):
        scores = [metric.sign * score for score in one.league.scores[norm].values()]
        axes.plot(scores, [place + 0.2] * len(scores), **style.SEED)
        axes.plot(fmean(scores), place, color=look.color, marker=look.marker, markersize=4)
    for index, group in enumerate(one.league.groups):
        places, beside = [names.index(norm) for norm in group], axes.get_yaxis_transform()
        axes.plot([1.04 + 0.06 * index] * len(group), places, **BAR, clip_on=False, transform=beside)
    axes.set(title=f"{title(one.task)}, {SIZES[one.scale]}", xlabel=metric.axis)
    axes.set_yticks(range(len(names)), [*map(title, names)])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
