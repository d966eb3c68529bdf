"""The square: scores by which of value and gradient is normalized, and the gradients through the layers."""

import math
from statistics import fmean

from matplotlib.axes import Axes

from adanorm.analyses.cell import analysis_results
from adanorm.analyses.spec import analysis_grid, load_analysis
from adanorm.config.titles import title
from adanorm.reporting.figures import style
from adanorm.reporting.tables.formats import tasks_with_runs
from adanorm.reporting.tables.table import Table
from adanorm.reporting.text import seeds

# By the value, as it is and normalized, the norms whose gradient is as it is, has the mean's derivative, the
# variance's, both.
VALUES, GRADIENTS = ("as it is", "normalized"), ("as it is", "mean", "variance", "both")
ARMS = (
    ("none", "grad-mean", "grad-variance", "grad-only"),
    ("detachnorm", "detach-var", "detach-mean", "layernorm-simple"),
)
MEASURED = "rt"  # where the analysis `gradients` has the tasks' own layers


@style.figure_style()
def square(name: str, table: Table) -> style.NamedFigure | None:
    """Return each task's map of mean scores, and dl/dx at each norm; None where no corner has run."""
    means = {task: _means(table, task) for task in tasks_with_runs(table)}
    maps = {task: known for task, known in means.items() if known}
    if not maps:
        return None
    figure, panels = style.panels(len(maps) + 1, 1.7, table.study.title, across=2)
    for (task, known), axes in zip(maps.items(), panels, strict=False):
        _map(axes, known)
        axes.set(title=f"{table.column_title(task)}, {table.metric_of(task).axis}")
    handles = _through_layers(panels[-1], table)
    style.legend_below(figure, handles)
    cells = [table.cells[arm, task] for task in maps for row in ARMS for arm in row]
    about = seeds(cell.by_seed for cell in cells if cell)
    caption = (
        f"{table.study.title}: mean test scores at {table.study.scale} scale, {about}, and their leads over"
        " no norm. Last, the standard deviation over the features of dl/dx at each norm, first to last,"
        " by the analysis `gradients`."
    )
    return style.NamedFigure(name, caption, figure)


def _means(table: Table, task: str) -> dict[str, float]:
    cells = {arm: table.cells[arm, task] for row in ARMS for arm in row}
    return {arm: fmean(cell.scores) for arm, cell in cells.items() if cell and cell.scores}


def _map(axes: Axes, means: dict[str, float]) -> None:
    """Draw the map of a task, darker where a mean is higher, and write each mean and its lead over none."""
    axes.imshow([[means.get(arm, math.nan) for arm in row] for row in ARMS], cmap="Greys", alpha=0.5)
    for y, row in enumerate(ARMS):
        for x, arm in enumerate(row):
            lead = f"\n{means[arm] - means['none']:+.2f}" if {arm, "none"} <= {*means} else ""
            axes.text(x, y, f"{means[arm]:.2f}{lead}" if arm in means else "-", ha="center", va="center")
    axes.set_xticks(range(len(GRADIENTS)), GRADIENTS)
    axes.set_yticks(range(len(VALUES)), VALUES)
    axes.set(xlabel="derivatives in the gradient", ylabel="value")
    axes.grid(visible=False)


def _through_layers(axes: Axes, table: Table) -> dict[str, style.Handle]:
    """Draw the size of dl/dx at each norm from the first to the last, and return the lines by arm."""
    analysis, runs = load_analysis("gradients"), next(iter(table.grid.values())).runs[0].runs
    grid, arms = analysis_grid(analysis, runs=runs), [arm for row in ARMS for arm in row]
    handles: dict[str, style.Handle] = {}
    for arm, look in style.norm_styles(arms).items():
        if results := analysis_results(grid[arm, MEASURED]):
            sites = [site for site in results[0].norm_sites or () if site in results[0].places]
            sizes = [fmean(result.places[s]["variance_before"] ** 0.5 for result in results) for s in sites]
            handles[title(arm)] = style.norm_line(axes, dict(enumerate(sizes, 1)), look)
    axes.set(title=f"{title(MEASURED)}, {analysis.scale} scale", xlabel="norm", ylabel="deviation of dl/dx")
    style.log_axis(axes)
    return handles
