"""Write the figures from the records: `python -m adanorm.figures`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TypeAlias

from adanorm import analyses, compose, studies
from adanorm.analyses import Analysis, Grid
from adanorm.config import PROJECT, choices
from adanorm.records.folder import shown
from adanorm.reporting import observed
from adanorm.reporting.bands import bands
from adanorm.reporting.curves import curves
from adanorm.reporting.figures import Drawing, write
from adanorm.reporting.intervals import norm_scores
from adanorm.reporting.invariances import invariances
from adanorm.reporting.over_setting import over_setting
from adanorm.reporting.published import published_tasks
from adanorm.reporting.tables import Table
from adanorm.studies import Study

CURVES = {"paper": "overview", "mini": "mini-all"}  # the study whose runs are drawn of a scale
Draw: TypeAlias = Callable[[str, str | None], Drawing | None]  # of a figure's name and the runs' folder


def names() -> list[str]:
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


def drawn_analysis(analysis: Analysis, grid: Grid, task: str) -> Drawing | None:
    """Return an analysis' figure of a task, or None where it has no records yet."""
    draw_one = DRAWINGS.get(analysis.name, observed.over_updates)
    cells = {norm: grid[norm, task] for norm in analysis.norms}
    return draw_one(figure_of(analysis, task), analysis, task, cells)


def draw(name: str, *, runs: str | None = None) -> Drawing | None:
    """Return a figure, or None where it has no records yet.

    Raises ValueError for a name that is not among `names()`.
    """
    every = _every()
    if name not in every:
        raise ValueError(f"unknown figure {name!r}: choose from {', '.join(every)}")
    return every[name](name, runs)


@cache
def _every() -> dict[str, Draw]:
    known = {name: studies.load(name, known_tasks=published_tasks()) for name in choices("study")}
    found: dict[str, Draw] = {}
    for name, study in known.items():
        if study.shows == "curves":
            found |= {f"{name}-{task}": partial(_curves, study, task) for task in study.columns}
        else:
            found[f"norms-{name}"] = partial(_scores, study)
    for scale, name in CURVES.items():
        found |= {f"curves-{task}-{scale}": partial(_curves, known[name], task) for task in choices("task")}
    for analysis in map(analyses.load, analyses.names()):
        found |= {figure_of(analysis, t): partial(_analysis, analysis, t) for t in analysis.tasks or [""]}
    return found


def _scores(study: Study, name: str, runs: str | None) -> Drawing | None:
    table = Table(study, studies.grid(study, runs=runs))
    return over_setting(name, table) if study.over else norm_scores(name, table)


def _curves(study: Study, task: str, name: str, runs: str | None) -> Drawing | None:
    grid = studies.grid(study.model_copy(update={"columns": [task]}), runs=runs)
    return curves(name, {study.rows[label].norm: cell for (label, _), cell in grid.items() if cell})


def _analysis(analysis: Analysis, task: str, name: str, runs: str | None) -> Drawing | None:
    return drawn_analysis(analysis, analyses.grid(analysis, runs=runs), task)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write every figure that has records, or those named, and say which have none."""
    parser = compose.Parser(prog="adanorm.figures", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names())}; default: all")
    missing = []
    for name in parser.parse_args(arguments).names or names():
        drawing = draw(name)
        if drawing is None:
            missing.append(name)
        else:
            paths = write(drawing, PROJECT / "results" / "figures")
            print(f"{shown(paths[0])} and {', '.join(path.suffix for path in paths[1:])}")
    if missing:
        print(f"no records yet: {', '.join(missing)}")


if __name__ == "__main__":
    compose.door(main)
