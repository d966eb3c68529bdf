"""The table in the README."""

from __future__ import annotations

from adanorm.reporting.names import title
from adanorm.reporting.tables.formats import _run
from adanorm.reporting.tables.markdown import markdown_row
from adanorm.reporting.tables.table import Table

MARKS = ("<!-- overview: written by `make tables` -->", "<!-- /overview -->")


def summary_table(table: Table) -> str:
    """Return a Markdown table of the tasks that have runs: ours, with the paper's number behind it."""
    study = table.study
    tasks = _run(table)
    header = ["Model", *(f"{title(task)} ({table.metric_of(task).label})" for task in tasks)]
    lines = [markdown_row(header), markdown_row(["---"] * len(header))]
    for norm in study.rows:
        cells = [f"{table.ours(norm, task)} [{table.paper(norm, task)}]" for task in tasks]
        lines.append(markdown_row([title(norm), *cells]))
    return "\n".join(lines)


def update_readme(readme: str, table: Table) -> str:
    """Return the README's text with the compact table between its marks."""
    before, _, rest = readme.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    return f"{before}{MARKS[0]}\n{summary_table(table)}\n{MARKS[1]}{after}"
