"""The figure that answers the question: AdaNorm's lead on each data set, in the unit of its score."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from adanorm.config.titles import task_metric, title
from adanorm.reporting.answers import SIZES, headline
from adanorm.reporting.figures.claim import MARGIN, PAPER
from adanorm.reporting.figures.style import WIDTH, NamedFigure, figure_style, legend_below, panels
from adanorm.verdicts.comparison import Comparison
from adanorm.verdicts.plan_answers import TaskAnswer

COLORS = {"ahead": "#0072B2", "behind": "#D55E00", "not told apart": "0.35"}


@figure_style()
def answer_figure(name: str, answers: Sequence[TaskAnswer]) -> NamedFigure | None:
    """Return one row per data set with an answer, each on an axis of its own; None where none has one."""
    shown = [(one, one.comparison) for one in answers if one.comparison is not None]
    if not shown:
        return None
    figure, grid = panels(len(shown), 1, 0.9 + 0.55 * len(shown))
    figure.set_size_inches(2 * WIDTH, 0.9 + 0.55 * len(shown))
    for axes, (one, comparison) in zip(grid, shown, strict=True):
        _draw(axes, one, comparison)
    grid[0].set_title("◄ LayerNorm better", loc="left", fontsize=8)
    grid[0].set_title("AdaNorm better ►", loc="right", fontsize=8)
    handles: dict[str, Artist] = {
        "lead and the interval of its sign": Line2D([], [], color="0.35", marker="o"),
        "interval of its size": Line2D([], [], color="0.35", linewidth=3),
        "smaller than matters": Patch(**MARGIN),
        "the paper's lead": Line2D([], [], **PAPER),
    }
    legend_below(figure, handles, ncols=4, handlelength=1.6)
    return NamedFigure(name, f"AdaNorm's lead over LayerNorm. {headline(answers)}", figure)


def _draw(axes: Axes, one: TaskAnswer, comparison: Comparison) -> None:
    color = COLORS[comparison.sign]
    axes.axvspan(-comparison.margin, comparison.margin, zorder=0, **MARGIN)
    axes.axvline(0, color="0.6", linewidth=0.8, zorder=1)
    axes.plot(comparison.interval, [0, 0], color=color)
    axes.plot(comparison.margin_interval, [0, 0], color=color, linewidth=3, solid_capstyle="butt")
    axes.plot(comparison.gap, 0, marker="o", color=color, markersize=5)
    drawn = [*comparison.interval, comparison.margin]
    if comparison.paper is not None:
        axes.plot(comparison.paper.value, 0, **PAPER)
        drawn.append(comparison.paper.value)
    reach = 1.1 * max(map(abs, drawn))
    axes.set_xlim(-reach, reach)
    axes.set_ylim(-1, 1)
    metric = task_metric(one.task)
    axes.set_yticks([0], [f"{title(one.task)}, {metric.label}\n{SIZES[one.scale]}"])
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:+g}" if x else "0")
    size = comparison.size.replace("the margin", f"±{comparison.margin:g}")
    text = f"{comparison.sign}\n{size}"
    axes.text(1.02, 0, text, transform=axes.get_yaxis_transform(), va="center", fontsize=8)
