"""Write the figures from the records: `python -m adanorm.figures`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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

CURVES = {"paper": "overview", "mini": "mini-all"}  # the study whose runs are drawn of a scale


def names() -> list[str]:
    """Return the names of all figures, with records or without."""
    scores = [f"norms-{study}" for study in choices("study")]
    observations = [
        figure_of(a, task) for a in map(analyses.load, analyses.names()) for task in a.tasks or [""]
    ]
    return scores + [f"curves-{task}-{scale}" for scale in CURVES for task in choices("task")] + observations


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
    if name not in names():
        raise ValueError(f"unknown figure {name!r}: choose from {', '.join(names())}")
    kind, _, rest = name.partition("-")
    if kind == "norms":
        study = studies.load(rest, known_tasks=published_tasks())
        table = Table(study, studies.grid(study, runs=runs))
        return over_setting(name, table) if study.over else norm_scores(name, table)
    if kind == "analysis":
        found = {
            figure_of(a, t): (a, t) for a in map(analyses.load, analyses.names()) for t in a.tasks or [""]
        }
        analysis, task = found[name]
        return drawn_analysis(analysis, analyses.grid(analysis, runs=runs), task)
    task, _, scale = rest.rpartition("-")
    study = studies.load(CURVES[scale], known_tasks=published_tasks())
    study = study.model_copy(update={"columns": [task]})
    return curves(name, {norm: cell for (norm, _), cell in studies.grid(study, runs=runs).items()})


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
