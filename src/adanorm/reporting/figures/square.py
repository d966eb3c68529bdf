"""The square: scores by how value and gradient are normalized; gradients through the layers."""

import math
from collections.abc import Mapping
from statistics import fmean

from matplotlib.axes import Axes

from adanorm.analyses.spec import (
    analysis_grid,
    analysis_results,
    load_analysis,
)
from adanorm.config.titles import title
from adanorm.reporting.figures import style
from adanorm.reporting.figures.scores import drawn_scores
from adanorm.reporting.tables.table import Table, TaskColumn
from adanorm.reporting.text import seeds

GRADIENTS = (
    "neither",
    "mean",
    "variance",
    "both",
)  # derivatives in each; every gradient is divided by std
ARMS = {  # the norm for each gradient, by how the value is normalized
    "as it is": (
        "grad-scale",
        "grad-mean",
        "grad-variance",
        "grad-only",
    ),
    "normalized": (
        "detachnorm",
        "detach-var",
        "detach-mean",
        "layernorm-simple",
    ),
}
CORNERS = [arm for row in ARMS.values() for arm in row]
DRAWN = [*CORNERS, "none"]
GRADIENTS_OF = "rt"  # the data set whose gradients the last panel shows


@style.figure_style()
def square(name: str, table: Table) -> style.NamedFigure | None:
    """Return each task's map of mean scores, and dl/dx at each norm; None if no corner has runs."""
    maps = {}  # scores by task, arm and seed
    drawn: list[dict[int, float]] = []
    for column in table.begun:
        by_arm = {arm: drawn_scores(column.cells.get(arm)) for arm in DRAWN}
        scores = {arm: by_seed for arm, by_seed in by_arm.items() if by_seed}
        if any(arm in scores for arm in CORNERS):
            maps[column.task] = scores
            drawn += scores.values()
    if not maps:
        return None
    has_gradients = GRADIENTS_OF in maps
    figure, panels = style.panels(
        [*maps] + [GRADIENTS_OF] * has_gradients,
        1.7,
        table.study.title,
        across=2,
    )
    for task, axes in panels[: len(maps)]:
        _map(
            axes,
            maps[task],
            table.columns[task],
        )
    caption = (
        f"Mean test scores at {table.study.scale} scale, {seeds(drawn)}, and leads over no norm by"
        " shared seeds (*: a run diverged or did not learn)."
    )
    if has_gradients:
        _, last = panels[-1]
        style.legend_below(figure, _through_layers(last, table))
        caption += " Last panel: deviation of dl/dx at each norm."
    return style.NamedFigure(name, caption, figure)


def _map(
    axes: Axes,
    scores: Mapping[str, dict[int, float]],
    column: TaskColumn,
) -> None:
    """Draw a task's map, darker for a higher mean, with each mean and its lead over no norm."""
    means = {arm: fmean(by_seed.values()) for arm, by_seed in scores.items()}
    heights = [means.get(arm, math.nan) for arm in CORNERS]
    width = len(GRADIENTS)
    axes.imshow(
        [heights[:width], heights[width:]],
        cmap="Greys",
        alpha=0.5,
    )
    none = scores.get("none", {})
    for index, arm in enumerate(CORNERS):
        text = f"{means[arm]:.2f}" if arm in means else "-"
        if arm in column.cells and column.cells[arm].setback:
            text += "*"
        by_seed = scores.get(arm, {})
        leads = [score - none[seed] for seed, score in by_seed.items() if seed in none]
        if leads:
            text += f"\n{fmean(leads):+.2f}"
        y, x = divmod(index, width)
        axes.text(
            x,
            y,
            text,
            ha="center",
            va="center",
        )
    heading = f"{column.title}, {column.metric.axis}"
    if "none" in means:
        heading += f", no norm {means['none']:.2f}"
    axes.set_xticks(range(width), GRADIENTS)
    axes.set_yticks(range(len(ARMS)), ARMS)
    axes.set(
        title=heading,
        xlabel="derivatives in the gradient",
        ylabel="value",
    )
    axes.grid(visible=False)


def _through_layers(axes: Axes, table: Table) -> style.Handles:
    """Draw the size of dl/dx from RT's first norm to its last; return the lines by norm."""
    handles: style.Handles = {}
    analysis = load_analysis("gradients")
    grid = analysis_grid(analysis, runs=table.folder)
    for arm, drawn in style.norm_styles(DRAWN).items():
        results = analysis_results(grid[arm, GRADIENTS_OF])
        if not results:
            continue
        sizes = {}
        sites = [site for site in results[0].norm_sites or () if site in results[0].places]
        for number, site in enumerate(sites, 1):
            variances = [result.places[site]["variance_before"] for result in results]
            sizes[number] = fmean(map(math.sqrt, variances))
        handles[title(arm)] = style.norm_line(
            axes,
            sizes,
            drawn,
        )
    heading = f"{title(GRADIENTS_OF)}, {analysis.scale} scale"
    axes.set(
        title=heading,
        xlabel="norm",
        ylabel="deviation of dl/dx",
    )
    style.log_axis(axes)
    return handles
