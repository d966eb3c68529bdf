"""The square: scores by how value and gradient are normalized, and the gradients through the layers."""

import math
from statistics import fmean

from matplotlib.axes import Axes

from adanorm.analyses.spec import analysis_grid, analysis_results, load_analysis
from adanorm.config.titles import title
from adanorm.reporting.figures import style
from adanorm.reporting.figures.scores import drawn_scores
from adanorm.reporting.tables.formats import tasks_with_runs
from adanorm.reporting.tables.table import Table
from adanorm.reporting.text import seeds

GRADIENTS = (
    "neither",
    "mean",
    "variance",
    "both",
)  # derivatives in each; every gradient is divided by std
ARMS = {  # the norm for each gradient, by how the value is normalized
    "as it is": ("grad-scale", "grad-mean", "grad-variance", "grad-only"),
    "normalized": ("detachnorm", "detach-var", "detach-mean", "layernorm-simple"),
}
CORNERS = [arm for row in ARMS.values() for arm in row]
DRAWN = [*CORNERS, "none"]


@style.figure_style()
def square(name: str, table: Table) -> style.NamedFigure | None:
    """Return each task's map of mean scores, and dl/dx at each norm; None if no corner has runs."""
    columns = {task: table.column(task) for task in tasks_with_runs(table)}
    drawn = {
        task: {arm: drawn_scores(of[arm]) for arm in DRAWN if arm in of}
        for task, of in columns.items()
    }
    scores = {
        task: {arm: of_arm for arm, of_arm in of.items() if of_arm} for task, of in drawn.items()
    }
    maps = {task: of_task for task, of_task in scores.items() if of_task.keys() & {*CORNERS}}
    if not maps:
        return None
    figure, panels = style.panels(len(maps) + 1, 1.7, table.study.title, across=2)
    for (task, of_task), axes in zip(maps.items(), panels, strict=False):
        _map(axes, of_task, {arm: "*" for arm, cell in columns[task].items() if cell.setback})
        without = f", no norm {fmean(of_task['none'].values()):.2f}" if "none" in of_task else ""
        axes.set(title=f"{table.column_title(task)}, {table.metric_of(task).axis}{without}")
    style.legend_below(figure, _through_layers(panels[-1], table))
    about = seeds(by_seed for of_task in maps.values() for by_seed in of_task.values())
    caption = (
        f"Mean test scores at {table.study.scale} scale, {about}, and leads over no norm by shared"
        " seeds (*: a run diverged or did not learn). Last panel: deviation of dl/dx at each norm."
    )
    return style.NamedFigure(name, caption, figure)


def _map(axes: Axes, scores: dict[str, dict[int, float]], marks: dict[str, str]) -> None:
    """Draw a task's map, darker for a higher mean, with each mean, its mark and its lead over no norm."""
    means, none = (
        {arm: fmean(by_seed.values()) for arm, by_seed in scores.items()},
        scores.get("none", {}),
    )
    axes.imshow(
        [[means.get(arm, math.nan) for arm in row] for row in ARMS.values()],
        cmap="Greys",
        alpha=0.5,
    )
    for index, arm in enumerate(CORNERS):
        leads = [score - none[seed] for seed, score in scores.get(arm, {}).items() if seed in none]
        lead = f"\n{fmean(leads):+.2f}" if leads else ""
        mean = f"{means[arm]:.2f}" if arm in means else "-"
        text, (y, x) = f"{mean}{marks.get(arm, '')}{lead}", divmod(index, len(GRADIENTS))
        axes.text(x, y, text, ha="center", va="center")
    axes.set_xticks(range(len(GRADIENTS)), GRADIENTS)
    axes.set_yticks(range(len(ARMS)), ARMS)
    axes.set(xlabel="derivatives in the gradient", ylabel="value")
    axes.grid(visible=False)


def _through_layers(axes: Axes, table: Table) -> dict[str, style.Handle]:
    """Draw the size of dl/dx from RT's first norm to its last; return the lines by norm."""
    analysis, handles = load_analysis("gradients"), dict[str, style.Handle]()
    grid = analysis_grid(analysis, runs=table.folder)
    for arm, look in style.norm_styles(DRAWN).items():
        if results := analysis_results(grid[arm, "rt"]):
            sites = [site for site in results[0].norm_sites or () if site in results[0].places]
            sizes = [
                fmean(result.places[s]["variance_before"] ** 0.5 for result in results)
                for s in sites
            ]
            handles[title(arm)] = style.norm_line(axes, dict(enumerate(sizes, 1)), look)
    axes.set(
        title=f"{title('rt')}, {analysis.scale} scale", xlabel="norm", ylabel="deviation of dl/dx"
    )
    style.log_axis(axes)
    return handles
