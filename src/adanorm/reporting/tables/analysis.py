"""The tables of analyses as text, from their records alone."""

from collections.abc import Sequence
from pathlib import Path

from adanorm.analyses.spec import (
    Analysis,
    AnalysisGrid,
    AnalysisRecord,
    analysis_results,
    text,
)
from adanorm.config.paths import PROJECT
from adanorm.config.titles import title
from adanorm.files import write_files
from adanorm.reporting.text import (
    csv_text,
    markdown,
    page,
    seeds,
    table_block,
)


def analysis_markdown(analysis: Analysis, grid: AnalysisGrid) -> str:
    """Return the table of an analysis in Markdown: one part per task, one row per norm."""
    blocks = [f"# {analysis.title}"]
    header = [
        "Model",
        *(markdown(quantity.label) for quantity in analysis.shown),
    ]
    for task in analysis.tasks or [""]:
        rows = []
        for norm in analysis.norms:
            cell = grid[norm, task]
            if analysis_results(cell):
                values = [text(cell, quantity) for quantity in analysis.shown]
                rows.append([markdown(title(norm)), *values])
        if rows and task:
            settings = analysis.task_overrides.get(task, ())
            about = [
                title(task),
                f"{analysis.scale} scale",
                *settings,
            ]
            blocks.append(f"## {', '.join(about)}")
        if rows:
            blocks.append(table_block(header, rows))
    return page([*blocks, analysis.caption, _about_means(analysis, grid)])


def _about_means(analysis: Analysis, grid: AnalysisGrid) -> str:
    geometric = [markdown(quantity.label) for quantity in analysis.shown if quantity.geometric]
    means = f" (geometric means for: {'; '.join(geometric)})" if geometric else ""
    facts = [
        f"{key} {value}"
        for key, value in analysis.settings().items()
        if key not in ("name", "evaluate")
    ]
    ended = seeds(map(_seeds, grid.values()))
    return (
        f"Means over the observations and the places observed{means}, ± standard deviation over"
        f" seeds; {', '.join([*facts, ended])}."
    )


def _seeds(cell: Sequence[AnalysisRecord]) -> list[int]:
    return [result.seed for result in analysis_results(cell)]


def analysis_csv(analysis: Analysis, grid: AnalysisGrid) -> str:
    """Return an analysis as CSV, to six digits: one line per record, place and quantity."""
    header = [
        "task",
        "norm",
        "scale",
        "seed",
        "status",
        "place",
        "quantity",
        "mean",
    ]
    rows = []
    for (norm, task), cell in grid.items():
        scale = analysis.scale if task else ""
        for result in analysis_results(cell):
            about = [
                task,
                norm,
                scale,
                result.seed,
                result.status,
            ]
            for site, values in result.places.items():
                rows += [[*about, site, name, f"{x:.6g}"] for name, x in values.items()]
            valid = result.valid or {}
            rows += [[*about, "", f"valid_{name}", f"{x:.6g}"] for name, x in valid.items()]
    return csv_text(header, rows)


def write_analysis(
    analysis: Analysis,
    grid: AnalysisGrid,
    folder: Path | None = None,
) -> list[Path]:
    """Write an analysis' table as Markdown and CSV, and return the files."""
    name = f"analysis-{analysis.name}"
    files = {
        f"{name}.md": analysis_markdown(analysis, grid),
        f"{name}.csv": analysis_csv(analysis, grid),
    }
    return write_files(folder or PROJECT / "results" / "tables", files)
