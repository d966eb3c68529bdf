"""Every figure by name, and how it is drawn."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import TypeAlias

from adanorm.analyses.spec import Analysis, AnalysisGrid, analysis_grid, analysis_names, load_analysis
from adanorm.config.paths import choices
from adanorm.reporting.figures.bands import bands
from adanorm.reporting.figures.curves import curves
from adanorm.reporting.figures.intervals import norm_scores
from adanorm.reporting.figures.invariances import invariances
from adanorm.reporting.figures.over_updates import over_updates
from adanorm.reporting.figures.style import Drawing
from adanorm.reporting.figures.sweep import over_setting
from adanorm.reporting.tables.table import Table
from adanorm.studies.grid import study_grid
from adanorm.studies.study import Study, load_studies

Draw: TypeAlias = Callable[[str, str | None], Drawing | None]  # of a figure's name and the runs' folder


def figure_names() -> list[str]:
    """Return the names of all figures, with records or without."""
    return list(_every())


def figure_of(analysis: Analysis, task: str) -> str:
    """Return the name of an analysis' figure of a task."""
    return f"analysis-{analysis.name}-{task}" if task else f"analysis-{analysis.name}"


# Analyses whose figure is no quantities over updates.
DRAWINGS: dict[str, Callable[..., Drawing | None]] = {
    "covariate-shift": bands,
    "invariance": invariances,
    "landscape": bands,
}


def drawn_analysis(analysis: Analysis, grid: AnalysisGrid, task: str) -> Drawing | None:
    """Return an analysis' figure of a task, or None where it has no records yet."""
    draw_one = DRAWINGS.get(analysis.name, over_updates)
    cells = {norm: grid[norm, task] for norm in analysis.norms}
    return draw_one(figure_of(analysis, task), analysis, task, cells)


def draw_figure(name: str, *, runs: str | None = None) -> Drawing | None:
    """Return a figure, or None where it has no records yet.

    Raises ValueError for a name that is not among `names()`.
    """
    every = _every()
    if name not in every:
        raise ValueError(f"unknown figure {name!r}: choose from {', '.join(every)}")
    return every[name](name, runs)


@cache
def _every() -> dict[str, Draw]:
    found: dict[str, Draw] = {}
    for name, study in load_studies().items():
        if study.shows == "curves":
            found |= {f"{name}-{task}": partial(_curves, study, task) for task in study.columns}
        else:
            found[f"norms-{name}"] = partial(_scores, study)
        if "curves" in study.roles:
            for task in choices("task"):
                found[f"curves-{task}-{study.scale}"] = partial(_curves, study, task)
    for analysis in map(load_analysis, analysis_names()):
        found |= {figure_of(analysis, t): partial(_analysis, analysis, t) for t in analysis.tasks or [""]}
    return found


def _scores(study: Study, name: str, runs: str | None) -> Drawing | None:
    table = Table(study, study_grid(study, runs=runs))
    return over_setting(name, table) if study.over else norm_scores(name, table)


def _curves(study: Study, task: str, name: str, runs: str | None) -> Drawing | None:
    grid = study_grid(study.model_copy(update={"columns": [task]}), runs=runs)
    return curves(name, {study.rows[plan.label].norm: plan.runs for plan in grid.values() if plan.runs})


def _analysis(analysis: Analysis, task: str, name: str, runs: str | None) -> Drawing | None:
    return drawn_analysis(analysis, analysis_grid(analysis, runs=runs), task)
