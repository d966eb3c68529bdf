"""The tables of analyses as text, from their records alone."""

from pathlib import Path

from adanorm.analyses.spec import Analysis, AnalysisGrid, analysis_results, text
from adanorm.config.paths import PROJECT
from adanorm.config.titles import title
from adanorm.files import write_files
from adanorm.reporting.text import csv_text, markdown, markdown_table, seeds


def analysis_markdown(analysis: Analysis, grid: AnalysisGrid) -> str:
    """Return the table of an analysis in Markdown: one part per task, one row per norm."""
    lines = [f"# {analysis.title}", ""]
    header = ["Model", *(markdown(quantity.label) for quantity in analysis.shown)]
    for task in analysis.tasks or [""]:
        rows = [
            [
                markdown(title(norm)),
                *(text(grid[norm, task], quantity) for quantity in analysis.shown),
            ]
            for norm in analysis.norms
            if analysis_results(grid[norm, task])
        ]
        about = [
            f"## {title(task)}",
            f"{analysis.scale} scale",
            *analysis.task_overrides.get(task, ()),
        ]
        lines += [", ".join(about), ""] if task and rows else []
        lines += [*markdown_table(header, rows), ""] if rows else []
    return "\n".join([*lines, analysis.caption, "", _about_means(analysis, grid), ""])


def _about_means(analysis: Analysis, grid: AnalysisGrid) -> str:
    settings = [
        f"{k} {value}" for k, value in analysis.settings().items() if k not in ("name", "evaluate")
    ]
    geometric = [markdown(quantity.label) for quantity in analysis.shown if quantity.geometric]
    of = f" (geometric means for: {'; '.join(geometric)})" if geometric else ""
    over = f"Means over the observations and the places observed{of}, ± standard deviation over seeds; "
    ended = seeds([result.seed for result in analysis_results(cell)] for cell in grid.values())
    return f"{over}{', '.join([*settings, ended])}."


def analysis_csv(analysis: Analysis, grid: AnalysisGrid) -> str:
    """Return an analysis as CSV, to six digits: one line per record, place and quantity."""
    header = ["task", "norm", "scale", "seed", "status", "place", "quantity", "mean"]
    rows: list[list[object]] = []
    for (norm, task), cell in grid.items():
        for result in analysis_results(cell):
            about = [task, norm, analysis.scale if task else "", result.seed, result.status]
            for place, values in result.places.items():
                rows += [[*about, place, name, f"{value:.6g}"] for name, value in values.items()]
            rows += [
                [*about, "", f"valid_{n}", f"{value:.6g}"]
                for n, value in (result.valid or {}).items()
            ]
    return csv_text(header, rows)


def write_analysis(
    analysis: Analysis, grid: AnalysisGrid, folder: Path | None = None
) -> list[Path]:
    """Write an analysis' table as Markdown and CSV, and return the files."""
    texts = {"md": analysis_markdown(analysis, grid), "csv": analysis_csv(analysis, grid)}
    files = {f"analysis-{analysis.name}.{ending}": text for ending, text in texts.items()}
    return write_files(folder or PROJECT / "results" / "tables", files)
