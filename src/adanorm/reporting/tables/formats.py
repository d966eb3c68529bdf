"""A study's table as Markdown, CSV, LaTeX, and text for a terminal."""

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import TypeAlias

from adanorm.config.paths import PROJECT
from adanorm.config.titles import METRICS, title
from adanorm.files import write_files
from adanorm.reporting.tables.notes import notes
from adanorm.reporting.tables.table import Table
from adanorm.reporting.text import (
    csv_text,
    latex,
    markdown,
    page,
    table_block,
)
from adanorm.verdicts.cell import Cell
from adanorm.verdicts.quantities import Quantity, metric_of

WIDTH, LABEL = 80, 18  # characters: of a terminal's line, and of a row's label in it
HOW = "[How to read a table](../../docs/tables.md#how-to-read-a-table)."
Two: TypeAlias = tuple[Quantity, Quantity]
VALIDATION: Two = ("valid_best", "valid_level")
WRONG_LABELS: Two = ("memorized", "recovered")
CHRF: Two = ("chrf", "length_ratio")
TRIES = "Validation scores of every setting that was tried"
TRIES_NOTE = "Means over the study's seeds. **Bold**: the setting whose test score stands above."


def write_table(
    table: Table,
    name: str,
    to: Path | None = None,
    formats: Sequence[str] = (),
) -> list[Path]:
    """Write a table in `formats`, by default those of the study's committed table.

    Return the files.
    """
    standard = ["md", "csv"]
    if "latex" in table.study.roles:
        standard.append("tex")
    texts = {f"{name}.{kind}": FORMATS[kind](table) for kind in formats or standard}
    return write_files(to or PROJECT / "results" / "tables", texts)


def _grid(table: Table, escape: Callable[[str], str], *, bold: str) -> list[list[str]]:
    """Return the rows in the paper's layout; the best row of a task gets the format `bold`."""
    rows = []
    columns = table.columns

    def add(label: str, fields: Sequence[str]) -> None:
        """Add a row, unless all its fields are empty."""
        if any(fields):
            rows.append([escape(label), *map(escape, fields)])

    for row in table.study.rows:
        add(title(row), [table.ours(row, task) for task in columns])
        for index, column in enumerate(columns.values(), 1):
            if column.best == row:
                rows[-1][index] = bold.format(rows[-1][index])
        for label, text in (
            ("· paper", table.paper),
            ("· verdict", table.verdict),
            (f"· {table.label_beside}", table.text_beside),
        ):
            add(label, [text(row, task) for task in columns])
    for before, after in table.study.improvements:
        leads = [table.improvement(before, after, task) for task in columns]
        add(f"{title(after)} over {title(before)}", [ours for ours, _ in leads])
        if table.shows_paper:
            add("· paper", [papers for _, papers in leads])
        beside = [table.improvement_beside(before, after, task) for task in columns]
        add(f"· {table.label_beside}", beside)
    add("Trivial baseline", [column.baseline_text for column in columns.values()])
    add("Outside model", [column.anchor_text for column in columns.values()])
    return rows


def tables_beside(table: Table) -> dict[str, list[list[str]]]:
    """Return by heading the tables below the scores, each with two means per cell.

    Wrong labels are shown only if the study's rule reads them.
    """
    validation = "Validation scores: the best evaluation, and the level"
    pairs = {validation: VALIDATION}
    if table.study.rule and {*WRONG_LABELS} & {*table.study.rule.quantities.values()}:
        heading = "Wrong labels at the last evaluation, in percent: learned, and recovered"
        pairs[heading] = WRONG_LABELS
    if table.study.scale == "small":
        pairs["chrF2, and the length of outputs over that of references"] = CHRF
    tables = {heading: _means_beside(table, pair) for heading, pair in pairs.items()}
    return {heading: rows for heading, rows in tables.items() if rows}


def _means_beside(table: Table, pair: Two) -> list[list[str]]:
    """Return the rows of a table of two means per cell, below a row of headers.

    [] without means.
    """
    columns = {}  # texts by the column's label and the row
    for column in table.begun:
        texts = {}
        for row, cell in column.cells.items():
            means = table.means(
                row,
                column.task,
                *pair,
            )
            if not means:
                continue
            fields = []
            for quantity, mean in zip(pair, means, strict=True):
                metric = metric_of(
                    cell.runs[0],
                    quantity,
                    cell.metric,
                )
                fields.append(metric.text(mean))
            texts[row] = ", ".join(fields)
        if texts:
            label = column.validation_label if pair == VALIDATION else column.title
            columns[label] = texts
    rows = [["Model", *columns]]
    for row in table.study.rows:
        fields = [texts.get(row, "-") for texts in columns.values()]
        if {*fields} != {"-"}:
            rows.append([title(row), *fields])
    return rows if columns else []


def _tries(table: Table) -> list[str]:
    """Return blocks with the validation scores of a budget's settings; [] without any."""
    rows = []
    for (row, setting), by_task in table.tries.items():
        fields = [markdown(title(row)), markdown(setting)]
        for column in table.begun:
            tried = by_task.get(column.task)
            text = tried.text if tried else "-"
            is_shown = tried and table.is_shown(row, column.task, tried)
            fields.append(f"**{text}**" if is_shown else text)
        rows.append(fields)
    if not rows:
        return []
    header = [
        "Model",
        "setting",
        *(column.validation_label for column in table.begun),
    ]
    return [f"## {TRIES}", table_block(header, rows), TRIES_NOTE]


def table_markdown(table: Table) -> str:
    """Return the table in Markdown, in the paper's layout."""
    header = [
        "Model",
        *(column.label for column in table.columns.values()),
    ]
    rows = _grid(
        table,
        markdown,
        bold="**{}**",
    )
    blocks = [f"# {markdown(table.study.title)}", table_block(header, rows)]
    for heading, beside in tables_beside(table).items():
        names, *body = [list(map(markdown, fields)) for fields in beside]
        blocks += [f"## {heading}", table_block(names, body)]
    return page([*blocks, *_tries(table), *notes(table), HOW])


CSV_HEADER = (
    "task", "norm", "metric", "scale", "scores", "mean", "diverged", "failed", "paper",
    "paper_source", "confirmed", "verdict", "seeds", "unlearned", "baseline", "valid_best",
    "valid_level",
)  # fmt: skip


def table_csv(table: Table) -> str:
    """Return the table as CSV, to four decimals: one line per cell."""
    header = [*CSV_HEADER]
    rows = {address: _csv_row(table, *address) for address in table.cells}
    if table.study.tries:
        header.append("chosen")
        for address, fields in rows.items():
            fields.append(table.chosen.get(address, ""))
    if table.reads_newest and table.beside:
        header.append("first_plan")
        for address, fields in rows.items():
            first = table.beside.get(address, Cell(""))
            fields.append(_scores(first))
    return csv_text(header, rows.values())


def _csv_row(table: Table, row: str, task: str) -> list[str]:
    """Return a cell as a row, one text for each of CSV_HEADER."""
    cell = table.cells[row, task]
    column = table.columns[task]
    label = METRICS[cell.metric].label if cell else column.metric.label
    cell = cell or Cell("")
    number = table.published(row, task)
    paper = ["", "", ""]
    if number:
        is_confirmed = "yes" if number.confirmed else "no"
        paper = [number.text, number.source, is_confirmed]
    valid = table.means(
        row,
        task,
        *VALIDATION,
    )
    return [
        task,
        row,
        label,
        table.study.scale,
        _scores(cell),
        f"{fmean(cell.scores):.4f}" if cell.scores else "",
        str(cell.count("diverged")),
        str(cell.count("failed")),
        *paper,
        table.verdict(row, task),
        " ".join(str(result.seed) for result in cell.results if result.status == "done"),
        " ".join(map(str, cell.unlearned)),
        f"{column.baseline.score:.4f}" if column.baseline else "",
        *([f"{score:.4f}" for score in valid] or ["", ""]),
    ]


def _scores(cell: Cell) -> str:
    return " ".join(f"{score:.4f}" for score in cell.scores)


def table_latex(table: Table) -> str:
    """Return the table as a LaTeX tabular in the paper's layout.

    LaTeX needs the package booktabs.
    """
    header = ["Model", *(latex(column.name) for column in table.columns.values())]
    rows = [header, *_grid(table, latex, bold=r"\textbf{{{}}}")]
    head, *body = [" & ".join(fields) + r" \\" for fields in rows]
    lines = [
        f"% {table.study.title}",
        rf"\begin{{tabular}}{{l{'c' * len(table.columns)}}}",
        r"\toprule",
        head,
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        "",
    ]
    return "\n".join(lines)


def table_text(table: Table) -> str:
    """Return the table for a terminal 80 characters wide: one line per cell of tasks with runs."""
    study = table.study
    lines = [table.study.title]
    for column in table.begun:
        lines.append(f"{column.title}, test {column.metric.label}, {study.scale}")
        for row in study.rows:
            paper = table.paper(row, column.task)
            label = title(row)
            quoted = f"paper {paper:<7} {table.verdict(row, column.task)}" if paper else ""
            if len(label) > LABEL:  # gets lines of its own
                lines += textwrap.wrap(
                    label,
                    WIDTH,
                    initial_indent="  ",
                    subsequent_indent="    ",
                )
                label = ""
            line = f"  {label:<{LABEL}} {table.ours(row, column.task):<24} {quoted}"
            lines += textwrap.wrap(
                line,
                WIDTH,
                subsequent_indent="    ",
            )
    empty = [column.name for column in table.columns.values() if not column.begun]
    if empty:
        lines.append(f"no runs yet: {', '.join(empty)}")
    return "\n".join(lines)


FORMATS = {
    "md": table_markdown,
    "csv": table_csv,
    "tex": table_latex,
}
