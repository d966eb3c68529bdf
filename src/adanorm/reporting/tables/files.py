"""Writing tables in their formats."""

from __future__ import annotations

from pathlib import Path

from adanorm.analyses.spec import Analysis, AnalysisGrid
from adanorm.config.paths import PROJECT
from adanorm.files import write_whole
from adanorm.reporting.tables.analysis import analysis_csv, analysis_markdown
from adanorm.reporting.tables.formats import table_csv, table_latex, table_markdown
from adanorm.reporting.tables.table import Table


def write_table(table: Table, name: str, folder: Path | None = None) -> list[Path]:
    """Write a table in its three formats and return the files."""
    folder = folder or PROJECT / "results" / "tables"
    folder.mkdir(parents=True, exist_ok=True)
    texts = {".md": table_markdown(table), ".csv": table_csv(table), ".tex": table_latex(table)}
    for suffix, text in texts.items():
        write_whole(folder / f"{name}{suffix}", text.encode())
    return [folder / f"{name}{suffix}" for suffix in texts]


def write_analysis(analysis: Analysis, grid: AnalysisGrid, folder: Path | None = None) -> list[Path]:
    """Write an analysis' table in its two formats and return the files."""
    folder = folder or PROJECT / "results" / "tables"
    folder.mkdir(parents=True, exist_ok=True)
    texts = {".md": analysis_markdown(analysis, grid), ".csv": analysis_csv(analysis, grid)}
    for suffix, text in texts.items():
        write_whole(folder / f"analysis-{analysis.name}{suffix}", text.encode())
    return [folder / f"analysis-{analysis.name}{suffix}" for suffix in texts]
