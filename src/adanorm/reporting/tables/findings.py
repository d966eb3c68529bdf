"""Findings of older papers and their verdicts, in Markdown."""

from __future__ import annotations

import math

from adanorm.analyses.cell import analysis_results, number, text
from adanorm.analyses.spec import Analysis, AnalysisGrid, analysis_grid, load_analysis
from adanorm.config.titles import title
from adanorm.reporting.text import how_to_read, markdown, markdown_table
from adanorm.verdicts.findings import Finding, FindingRow, compared, load_findings

COLUMNS = ("task", "quantity", "of", "and of", "difference", "p (Holm)", "seeds", "verdict")


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
            else (COLUMNS, [*map(_row, compared(finding, analysis, grid))])
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
