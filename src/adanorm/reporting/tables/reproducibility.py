"""How reproducible the paper's columns are, as text."""

from collections.abc import Sequence

from adanorm.config.titles import title
from adanorm.reporting.text import csv_text, how_to_read, markdown_table
from adanorm.verdicts.reproducibility import Agreement

COLUMNS = (
    "task", "paper's numbers", "norms", "orders upheld", "p", "among our own seeds", "Spearman", "Pearson",
    "mean CV*",
)  # fmt: skip


def reproducibility_markdown(columns: Sequence[Agreement]) -> str:
    """Return the measures in Markdown, one row per column of the paper."""
    body = ["No task has runs of three norms at the paper's scale."]
    if columns:
        body = [*markdown_table(COLUMNS, map(row, columns)), "", how_to_read("Reproducibility")]
    return "\n".join(["# How reproducible the paper is", "", *body, ""])


def row(column: Agreement) -> list[str]:
    """Return a column's measures as a row, one text for each of COLUMNS."""
    own, share = column.own_upheld, 100 * column.upheld / max(1, column.ordered)
    return [
        title(column.task) if column.task else "all",
        "confirmed" if column.confirmed else "all",
        str(column.norms),
        f"{column.upheld} of {column.ordered} ({share:.0f} %)",
        "-" if column.p_upheld is None else f"{column.p_upheld:.2f}",
        "-" if own is None else f"{100 * own:.0f} %",
        *("-" if r is None else f"{r:+.2f}" for r in (column.spearman, column.pearson)),
        f"{column.variation:.2f} %",
    ]


def reproducibility_csv(columns: Sequence[Agreement]) -> str:
    """Return the measures as CSV, to four decimals."""
    rows = []
    for column in columns:
        texts = ("" if n is None else n if isinstance(n, int) else f"{n:.4f}" for n in column[:8])
        rows.append([column.task or "all", "yes" if column.confirmed else "no", *texts])
    return csv_text(["task", "confirmed", *Agreement._fields[:8]], rows)
