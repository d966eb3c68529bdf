"""A study's table as Markdown, CSV, LaTeX, and text for a terminal."""

import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean

from adanorm.config.paths import PROJECT
from adanorm.config.titles import title
from adanorm.files import write_files
from adanorm.metrics.table import METRICS
from adanorm.reporting.tables.notes import notes
from adanorm.reporting.tables.table import Table
from adanorm.reporting.text import csv_text, latex, markdown, markdown_table
from adanorm.verdicts.cell import Quantity

WIDTH, LABEL = 80, 18  # characters: of a terminal's line, and of a row's label in it
HOW = "[How to read a table](../../docs/tables.md#how-to-read-a-table)."
BESIDE: dict[
    str, tuple[Quantity, Quantity]
] = {  # the quantities of a table below the scores, by its heading
    "Validation scores: the best evaluation, and the level": ("valid_best", "valid_level"),
    "Wrong labels at the last evaluation, in percent: learned, and recovered": (
        "memorized",
        "recovered",
    ),
}
TRIES = "Validation scores of every setting that was tried"
TRIES_NOTE = "Means over the study's seeds. **Bold**: the setting whose test score stands above."


def write_table(
    table: Table, name: str, to: Path | None = None, formats: Sequence[str] = ()
) -> list[Path]:
    """Write a table in `formats`, by default those of the study's committed table; return the files."""
    standard = ["md", "csv", *(["tex"] if "latex" in table.study.roles else [])]
    texts = {f"{name}.{kind}": FORMATS[kind](table) for kind in formats or standard}
    return write_files(to or PROJECT / "results" / "tables", texts)


def _grid(table: Table, escape: Callable[[str], str], *, bold: str) -> list[list[str]]:
    """Return the rows of the table in the paper's layout; the best row of a task gets the format `bold`."""
    columns, rows = table.study.columns, list[list[str]]()
    for norm in table.study.rows:
        scores = [
            (bold if table.best(t) == norm else "{}").format(escape(table.ours(norm, t)))
            for t in columns
        ]
        rows.append([escape(title(norm)), *scores])
        for label, text in (("· paper", table.paper), ("· verdict", table.verdict)):
            if any(fields := [text(norm, task) for task in columns]):
                rows.append([*map(escape, [label, *fields])])
    for before, after in table.study.improvements:
        ours, theirs = zip(
            *(table.improvement(before, after, task) for task in columns), strict=True
        )
        rows.append([*map(escape, [f"{title(after)} over {title(before)}", *ours])])
        rows += [[*map(escape, ["· paper", *theirs])]] if table.shows_paper else []
    if any(baselines := [baseline_text(table, task) for task in columns]):
        rows.append([*map(escape, ["Trivial baseline", *baselines])])
    return rows


def baseline_text(table: Table, task: str) -> str:
    """Return the best trivial baseline of a column as text; empty if none is recorded."""
    baseline = table.baseline(task)
    return f"{table.metric_of(task).text(baseline.score)} ({baseline.name})" if baseline else ""


def tasks_with_runs(table: Table) -> list[str]:
    """Return the tasks that have an ended run."""
    return [
        task for task in table.study.columns if any(c.results for c in table.column(task).values())
    ]


def column_label(table: Table, task: str) -> str:
    """Return a column's title with the metric of its test scores."""
    return f"{table.column_title(task)} ({table.metric_of(task).label})"


def validation_label(table: Table, task: str) -> str:
    """Return a column's title with the metric of its validation scores."""
    run = table.first_run(task)
    assert run is not None, "only columns with runs have this label"
    return f"{table.column_title(task)} ({METRICS[run.task.selection_metric].label})"


def tables_beside(table: Table) -> dict[str, list[list[str]]]:
    """Return by heading tables with two means per cell; wrong labels only if the study's rule reads them."""
    of_rule = {*table.study.rule.quantities.values()} if table.study.rule else {*()}
    pairs = {
        heading: pair
        for heading, pair in BESIDE.items()
        if "valid_best" in pair or {*pair} & of_rule
    }
    return {
        heading: rows for heading, pair in pairs.items() if (rows := _means_beside(table, pair))
    }


def _means_beside(table: Table, pair: tuple[Quantity, Quantity]) -> list[list[str]]:
    texts: dict[str, dict[str, str]] = {}
    for task in tasks_with_runs(table):
        for norm, cell in table.column(task).items():
            if means := table.means(norm, task, *pair):
                metric = METRICS[
                    pair[0] if pair[0] in METRICS else cell.runs[0].task.selection_metric
                ]
                texts.setdefault(task, {})[norm] = ", ".join(map(metric.text, means))
    norms = [norm for norm in table.study.rows if any(norm in of for of in texts.values())]
    body = [[title(norm), *(of.get(norm, "-") for of in texts.values())] for norm in norms]
    label = table.column_title if pair[0] in METRICS else partial(validation_label, table)
    return [["Model", *map(label, texts)], *body] if body else []


def _tries(table: Table) -> list[str]:
    """Return the table of validation scores of a budget's settings in Markdown."""
    tasks, rows = tasks_with_runs(table), []
    for (row, setting), by_task in table.tries().items():
        texts = {
            task: f"**{tried.text}**" if table.is_shown(row, task, tried) else tried.text
            for task, tried in by_task.items()
        }
        rows.append(
            [markdown(title(row)), markdown(setting), *(texts.get(task, "-") for task in tasks)]
        )
    header = ["Model", "setting", *(validation_label(table, task) for task in tasks)]
    return [f"## {TRIES}", "", *markdown_table(header, rows), "", TRIES_NOTE, ""] if rows else []


def table_markdown(table: Table) -> str:
    """Return the table in Markdown, in the paper's layout."""
    study = table.study
    header = ["Model", *(column_label(table, task) for task in study.columns)]
    lines = [f"# {markdown(study.title)}", ""]
    lines += [*markdown_table(header, _grid(table, markdown, bold="**{}**")), ""]
    for heading, rows in tables_beside(table).items():
        names, *body = ([*map(markdown, fields)] for fields in rows)
        lines += [f"## {heading}", "", *markdown_table(names, body), ""]
    return "\n".join([*lines, *_tries(table), "\n\n".join([*notes(table), HOW]), ""])


CSV_HEADER = (
    "task", "norm", "metric", "scale", "scores", "mean", "diverged", "failed", "paper", "paper_source",
    "confirmed", "verdict", "seeds", "unlearned", "baseline", "valid_best", "valid_level",
)  # fmt: skip


def table_csv(table: Table) -> str:
    """Return the table as CSV, to four decimals: one line per cell."""
    header = [*CSV_HEADER, "chosen"] if table.study.tries else CSV_HEADER
    rows = ([*_csv_row(table, *address), table.chosen.get(address, "")] for address in table.cells)
    return csv_text(header, (row[: len(header)] for row in rows))


def _csv_row(table: Table, norm: str, task: str) -> list[str]:
    """Return a cell as a row, one text for each of CSV_HEADER."""
    cell, number = table.cells[norm, task], table.published(norm, task)
    scores, results = (cell.scores, cell.results) if cell else ([], [])
    baseline, valid = table.baseline(task), table.means(norm, task, "valid_best", "valid_level")
    return [
        task,
        norm,
        METRICS[cell.metric].label if cell else table.metric_of(task).label,
        table.study.scale,
        " ".join(f"{score:.4f}" for score in scores),
        f"{fmean(scores):.4f}" if scores else "",
        *(str(cell.count(status) if cell else 0) for status in ("diverged", "failed")),
        *(
            (number.text, number.source, "yes" if number.confirmed else "no")
            if number
            else ("", "", "")
        ),
        table.verdict(norm, task),
        " ".join(str(result.seed) for result in results if result.status == "done"),
        " ".join(map(str, cell.unlearned)) if cell else "",
        f"{baseline.score:.4f}" if baseline else "",
        *([f"{score:.4f}" for score in valid] if valid else ["", ""]),
    ]


def table_latex(table: Table) -> str:
    """Return the table as a LaTeX tabular in the paper's layout; LaTeX needs the package booktabs."""
    columns = table.study.columns
    rows = [
        ["Model", *map(latex, map(title, columns))],
        *_grid(table, latex, bold=r"\textbf{{{}}}"),
    ]
    head, *body = (" & ".join(row) + r" \\" for row in rows)
    begin = [
        f"% {table.study.title}",
        rf"\begin{{tabular}}{{l{'c' * len(columns)}}}",
        r"\toprule",
        head,
    ]
    return "\n".join([*begin, r"\midrule", *body, r"\bottomrule", r"\end{tabular}", ""])


def table_text(table: Table) -> str:
    """Return the table for a terminal 80 characters wide: one line per cell, no tasks without runs."""
    study, tasks = table.study, tasks_with_runs(table)
    lines = [study.title]
    for task in tasks:
        lines.append(
            f"{table.column_title(task)}, test {table.metric_of(task).label}, {study.scale}"
        )
        for norm in study.rows:
            paper, label = table.paper(norm, task), title(norm)
            quoted = f"paper {paper:<7} {table.verdict(norm, task)}" if paper else ""
            if len(label) > LABEL:  # gets lines of its own
                lines += textwrap.wrap(label, WIDTH, initial_indent="  ", subsequent_indent="    ")
                label = ""
            line = f"  {label:<{LABEL}} {table.ours(norm, task):<24} {quoted}"
            lines += textwrap.wrap(line, WIDTH, subsequent_indent="    ")
    if empty := [title(task) for task in study.columns if task not in tasks]:
        lines.append(f"no runs yet: {', '.join(empty)}")
    return "\n".join(lines)


FORMATS = {"md": table_markdown, "csv": table_csv, "tex": table_latex}
