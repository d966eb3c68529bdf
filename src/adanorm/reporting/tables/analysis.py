"""Analyses as text and as figures, from their records alone."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from adanorm.analyses.cell import analysis_results, text
from adanorm.analyses.spec import Analysis, AnalysisGrid
from adanorm.config.paths import PROJECT
from adanorm.config.titles import title
from adanorm.files import write_whole
from adanorm.reporting.tables.formats import markdown_table


def _grid(analysis: Analysis, grid: AnalysisGrid, task: str) -> list[list[str]]:
    return [
        [title(norm), *(text(grid[norm, task], quantity) for quantity in analysis.shown)]
        for norm in analysis.norms
        if analysis_results(grid[norm, task])
    ]


def analysis_markdown(analysis: Analysis, grid: AnalysisGrid) -> str:
    """Return the table of an analysis in Markdown: one part per task, one row per norm."""
    lines = [f"# {analysis.title}", ""]
    header = ["Model", *(quantity.label.replace("|", r"\|") for quantity in analysis.shown)]
    for task in analysis.tasks or [""]:
        rows = _grid(analysis, grid, task)
        if not rows:
            continue
        if task:
            about = [f"{analysis.scale} scale", *analysis.task_overrides.get(task, ())]
            lines += [f"## {title(task)}, {', '.join(about)}", ""]
        lines += [*markdown_table(header, rows), ""]
    return "\n".join([*lines, analysis.caption, "", _how(analysis), ""])


def _how(analysis: Analysis) -> str:
    settings = ", ".join(
        f"{key} {value}" for key, value in analysis.settings().items() if key not in ("name", "evaluate")
    )
    seeds = f"seeds {', '.join(map(str, analysis.seeds))}"
    geometric = [quantity.label for quantity in analysis.shown if quantity.geometric]
    of = f", geometric of {' and of '.join(geometric)}" if geometric else ""
    over = f"Means over the observations and the places observed{of}, ± standard deviation over seeds; "
    return f"{over}{settings}, {seeds}."


def analysis_csv(analysis: Analysis, grid: AnalysisGrid) -> str:
    """Return the observations as CSV, unrounded: one line per record, place and quantity."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["task", "norm", "scale", "seed", "status", "place", "quantity", "mean"])
    for (norm, task), cell in grid.items():
        for result in analysis_results(cell):
            scale = analysis.scale if task else ""
            about = [task, norm, scale, result.seed, result.status]
            for place, values in result.places.items():
                writer.writerows([*about, place, name, f"{value:.6g}"] for name, value in values.items())
            for name, value in (result.valid or {}).items():
                writer.writerow([*about, "", f"valid_{name}", f"{value:.6g}"])
    return file.getvalue()


def analysis_text(analysis: Analysis, grid: AnalysisGrid) -> str:
    """Return the table for a terminal of 80 columns."""
    lines = [analysis.title]
    for task in analysis.tasks or [""]:
        rows = _grid(analysis, grid, task)
        if not rows:
            continue
        if task:
            lines.append(f"{title(task)}, {analysis.scale}")
        # Columns that do not fit go below the others.
        width = max(8, *(len(field) for row in rows for field in row[1:]))
        columns = max(1, (80 - 18) // (width + 1))
        for start in range(0, len(analysis.shown), columns):
            part = slice(start + 1, start + 1 + columns)
            header = [quantity.short for quantity in analysis.shown[start : start + columns]]
            for name, fields in [("", header), *((row[0], row[part]) for row in rows)]:
                lines.append(f"  {name:<16}" + "".join(f" {field:>{width}}" for field in fields))
    return "\n".join(lines) if len(lines) > 1 else f"{analysis.title}: no records yet"


def write_analysis(analysis: Analysis, grid: AnalysisGrid, folder: Path | None = None) -> list[Path]:
    """Write an analysis' table in its two formats and return the files."""
    folder = folder or PROJECT / "results" / "tables"
    folder.mkdir(parents=True, exist_ok=True)
    paths = {
        folder / f"analysis-{analysis.name}.md": analysis_markdown(analysis, grid),
        folder / f"analysis-{analysis.name}.csv": analysis_csv(analysis, grid),
    }
    for path, content in paths.items():
        write_whole(path, content.encode())
    return list(paths)
