"""Analyses as text, from their records alone, and the findings of older papers held against them."""

import math
from pathlib import Path

from adanorm.analyses.cell import analysis_results, number, text
from adanorm.analyses.spec import Analysis, AnalysisGrid, analysis_grid, load_analysis
from adanorm.config.paths import PROJECT
from adanorm.config.titles import title
from adanorm.reporting.text import csv_text, how_to_read, markdown, markdown_table, seeds, write_texts
from adanorm.verdicts.findings import Finding, FindingRow, compared, load_findings

FINDING_COLUMNS = ("task", "quantity", "of", "and of", "difference", "p (Holm)", "seeds", "verdict")


def analysis_markdown(analysis: Analysis, grid: AnalysisGrid) -> str:
    """Return the table of an analysis in Markdown: one part per task, one row per norm."""
    lines = [f"# {analysis.title}", ""]
    header = ["Model", *(markdown(quantity.label) for quantity in analysis.shown)]
    for task in analysis.tasks or [""]:
        rows = [
            [markdown(title(norm)), *(text(grid[norm, task], quantity) for quantity in analysis.shown)]
            for norm in analysis.norms
            if analysis_results(grid[norm, task])
        ]
        about = [f"## {title(task)}", f"{analysis.scale} scale", *analysis.task_overrides.get(task, ())]
        lines += [", ".join(about), ""] if task and rows else []
        lines += [*markdown_table(header, rows), ""] if rows else []
    return "\n".join([*lines, analysis.caption, "", _how(analysis, grid), ""])


def _how(analysis: Analysis, grid: AnalysisGrid) -> str:
    settings = [f"{k} {value}" for k, value in analysis.settings().items() if k not in ("name", "evaluate")]
    geometric = [markdown(quantity.label) for quantity in analysis.shown if quantity.geometric]
    of = f", geometric of {' and of '.join(geometric)}" if geometric else ""
    over = f"Means over the observations and the places observed{of}, ± standard deviation over seeds; "
    ended = seeds([result.seed for result in analysis_results(cell)] for cell in grid.values())
    return f"{over}{', '.join([*settings, ended])}."


def analysis_csv(analysis: Analysis, grid: AnalysisGrid) -> str:
    """Return the observations as CSV, unrounded: one line per record, place and quantity."""
    header = ["task", "norm", "scale", "seed", "status", "place", "quantity", "mean"]
    rows: list[list[object]] = []
    for (norm, task), cell in grid.items():
        for result in analysis_results(cell):
            about = [task, norm, analysis.scale if task else "", result.seed, result.status]
            for place, values in result.places.items():
                rows += [[*about, place, name, f"{value:.6g}"] for name, value in values.items()]
            rows += [[*about, "", f"valid_{n}", f"{value:.6g}"] for n, value in (result.valid or {}).items()]
    return csv_text(header, rows)


def write_analysis(analysis: Analysis, grid: AnalysisGrid, folder: Path | None = None) -> list[Path]:
    """Write an analysis' table in its two formats and return the files."""
    texts = {
        f"analysis-{analysis.name}.md": analysis_markdown(analysis, grid),
        f"analysis-{analysis.name}.csv": analysis_csv(analysis, grid),
    }
    return write_texts(folder or PROJECT / "results" / "tables", texts)


def findings_markdown(runs: str | None = None) -> str:
    """Return every finding with its verdicts, in Markdown; `runs` is the folder of the records."""
    lines = ["# Findings of older papers, tested", "", how_to_read("Findings")]
    for finding in load_findings():
        analysis = load_analysis(finding.analysis)
        grid = analysis_grid(analysis, runs=runs)
        lines += ["", f"## {finding.text}", "", f"{finding.source}; `make analyse WHAT={analysis.name}`."]
        labels = ("norm", *(quantity.label for quantity in analysis.shown), "verdict")
        header, rows = (
            (labels, _entries(finding, analysis, grid))
            if finding.table
            else (FINDING_COLUMNS, [*map(_row, compared(finding, analysis, grid))])
        )
        lines += ["", *(markdown_table(header, rows) if rows else ["Not run."])]
    return "\n".join([*lines, ""])


def _row(row: FindingRow) -> list[str]:
    sides = [f"{title(norm)} {number(mean)}" for norm, mean in zip(row.norms, row.means, strict=True)]
    p = "-" if row.p is None else f"{row.p:.3f}"
    sign = "-" if row.gap < 0 else "+"
    gap = f"x {math.exp(row.gap):.3f}" if row.by_ratio else sign + number(abs(row.gap))
    return [title(row.task), markdown(row.quantity), *sides, gap, p, str(row.seeds), row.verdict]


def _entries(finding: Finding, analysis: Analysis, grid: AnalysisGrid) -> list[list[str]]:
    """Return the rows of a published table of yes and no, one per norm."""
    cells = {norm: cell for (norm, _), cell in grid.items() if analysis_results(cell)}
    rows = []
    for norm, published in finding.table.items():
        if norm in cells:
            ours = [text(cells[norm], quantity) for quantity in analysis.shown]
            agrees = ours == ["yes" if entry else "no" for entry in published]
            rows.append([title(norm), *ours, "supported" if agrees else "contradicted"])
    return rows
