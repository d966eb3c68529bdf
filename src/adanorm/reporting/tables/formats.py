"""A study's table as text: Markdown, CSV, LaTeX, the terminal, the README."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean

from adanorm.config.paths import PROJECT
from adanorm.config.titles import title
from adanorm.files import write_whole
from adanorm.metrics.table import METRICS
from adanorm.reporting.tables.notes import notes
from adanorm.reporting.tables.table import Table
from adanorm.verdicts.cell import Tried

WIDTH, LABEL = 80, 18  # columns of a terminal, of them for a row's label


def markdown_row(fields: Sequence[str]) -> str:
    """Return a line of a Markdown table."""
    return f"| {' | '.join(fields)} |"


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table."""
    return [*map(markdown_row, (header, ["---"] * len(header))), *map(markdown_row, rows)]


def write_table(
    table: Table, name: str, folder: Path | None = None, formats: Sequence[str] = ()
) -> list[Path]:
    """Write a table in its formats and return the files: by default those of the study's committed ones."""
    folder = folder or PROJECT / "results" / "tables"
    folder.mkdir(parents=True, exist_ok=True)
    standard = ["md", "csv", *(["tex"] if "latex" in table.study.roles else [])]
    paths = {folder / f"{name}.{kind}": FORMATS[kind](table) for kind in formats or standard}
    for path, text in paths.items():
        write_whole(path, text.encode())
    return list(paths)


def _grid(table: Table, *, bold: str) -> list[list[str]]:
    """Return the rows of the wide table, the paper's layout: a norm's ours, paper, verdict.

    The norm that is significantly the best of a task is printed `bold`.
    """
    study = table.study
    best = {task: table.best(task) for task in study.columns}
    rows = []
    for norm in study.rows:
        ours = {task: table.ours(norm, task) for task in study.columns}
        rows.append([title(norm), *(bold.format(x) if best[t] == norm else x for t, x in ours.items())])
        if any(paper := [table.paper(norm, task) for task in study.columns]):
            rows.append(["· paper", *paper])
        if any(table.is_compared(norm, task) for task in study.columns):
            rows.append(["· verdict", *(table.verdict(norm, task) for task in study.columns)])
    for before, after in study.improvements:
        both = [table.improvement(before, after, task) for task in study.columns]
        rows.append([f"{title(after)} over {title(before)}", *(ours for ours, _ in both)])
        if table.shows_paper:
            rows.append(["· paper", *(theirs for _, theirs in both)])
    if has_baselines(table):
        rows.append(["Trivial baseline", *(baseline_text(table, task) for task in study.columns)])
    return rows


def has_baselines(table: Table) -> bool:
    """Return whether a trivial baseline is recorded for some column."""
    return any(table.baseline(task) for task in table.study.columns)


def baseline_text(table: Table, task: str) -> str:
    """Return the best trivial baseline of a column; nothing where none is recorded."""
    baseline = table.baseline(task)
    return f"{table.metric_of(task).text(baseline.score)} ({baseline.name})" if baseline else ""


def validated_tasks(table: Table) -> list[str]:
    """Return the tasks on which some norm has a validation curve."""
    return [
        task
        for task in tasks_with_runs(table)
        if any(table.validation(norm, task) for norm in table.study.rows)
    ]


def validation_rows(table: Table, tasks: Sequence[str]) -> list[list[str]]:
    """Return each norm's mean validation scores, of the best evaluation and the level, one field per task."""
    rows = [[title(norm), *(_best_and_level(table, norm, t) for t in tasks)] for norm in table.study.rows]
    return [row for row in rows if {*row[1:]} != {"-"}]


def column_label(table: Table, task: str) -> str:
    """Return a task with the metric of its test scores."""
    return f"{title(task)} ({table.metric_of(task).label})"


def validation_label(table: Table, task: str) -> str:
    """Return a task with the metric of its validation."""
    run = table.first_run(task)
    assert run is not None, "of columns with runs"
    return f"{title(task)} ({METRICS[run.task.selection_metric].label})"


def _validation(table: Table) -> list[str]:
    """Return the validation scores in Markdown."""
    if not (tasks := validated_tasks(table)):
        return []
    header = ["Model", *(validation_label(table, task) for task in tasks)]
    return [f"## {VALIDATION}", "", *markdown_table(header, validation_rows(table, tasks)), ""]


def _tries(table: Table) -> list[str]:
    """Return the validation scores of a budget's settings in Markdown."""
    if not (tries := table.tries()):
        return []
    tasks = tasks_with_runs(table)
    header = ["Model", "setting", *(validation_label(table, task) for task in tasks)]
    rows = [
        [title(row), setting, *(_tried(table, row, task, of.get(task)) for task in tasks)]
        for (row, setting), of in tries.items()
    ]
    return [f"## {TRIES}", "", *markdown_table(header, rows), "", TRIES_NOTE, ""]


def _tried(table: Table, row: str, task: str, tried: Tried | None) -> str:
    if tried is None:
        return "-"
    is_shown = table.is_shown(row, task, tried.candidate) and tried.valid
    return f"**{tried.text}**" if is_shown else tried.text


HOW = "[How to read a table](../../docs/tables.md#how-to-read-a-table)."
VALIDATION = "Validation scores: the best evaluation, and the level"
TRIES = "Validation scores of every setting that was tried"
TRIES_NOTE = "Means over the study's seeds. **Bold**: the setting whose test score stands above."


def _best_and_level(table: Table, norm: str, task: str) -> str:
    scores = table.validation(norm, task)
    if scores is None:
        return "-"
    metric = METRICS[table.grid[norm, task].runs[0].task.selection_metric]
    return ", ".join(map(metric.text, scores))


def table_markdown(table: Table) -> str:
    """Return the table in Markdown, in the paper's layout."""
    study = table.study
    header = ["Model", *(column_label(table, task) for task in study.columns)]
    lines = [f"# {study.title}", "", *markdown_table(header, _grid(table, bold="**{}**"))]
    return "\n".join([*lines, "", *_validation(table), *_tries(table), "\n\n".join([*notes(table), HOW]), ""])


def tasks_with_runs(table: Table) -> list[str]:
    """Return the tasks on which some run has ended."""
    ended = {task for (_, task), cell in table.cells.items() if cell is not None and cell.results}
    return [task for task in table.study.columns if task in ended]


CSV_HEADER = (
    "task", "norm", "metric", "scale", "scores", "mean", "diverged", "failed", "paper", "paper_source",
    "confirmed", "verdict", "seeds", "unlearned", "baseline", "valid_best", "valid_level",
)  # fmt: skip


def table_csv(table: Table) -> str:
    """Return the table as CSV: one line per cell, unrounded."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    chosen = ["chosen"] if table.study.tries else []
    writer.writerow([*CSV_HEADER, *chosen])
    for norm, task in table.cells:
        writer.writerow(_csv_row(table, norm, task) + [table.chosen.get((norm, task), "") for _ in chosen])
    return file.getvalue()


def _csv_row(table: Table, norm: str, task: str) -> list[str]:
    """Return a cell, with one text for each of CSV_HEADER."""
    cell, number = table.cells[norm, task], table.published(norm, task)
    scores, results = (cell.scores, cell.results) if cell else ([], [])
    baseline, valid = table.baseline(task), table.validation(norm, task)
    return [
        task,
        norm,
        table.metric_of(task).label,
        table.study.scale,
        " ".join(f"{score:.4f}" for score in scores),
        f"{fmean(scores):.4f}" if scores else "",
        *(str(cell.count(status) if cell else 0) for status in ("diverged", "failed")),
        *((number.text, number.source, "yes" if number.confirmed else "no") if number else ("", "", "")),
        table.verdict(norm, task),
        " ".join(str(result.seed) for result in results if result.status == "done"),
        " ".join(map(str, cell.unlearned)) if cell else "",
        f"{baseline.score:.4f}" if baseline else "",
        *(f"{score:.4f}" for score in valid or ()),
        *([] if valid else ["", ""]),
    ]


def table_latex(table: Table) -> str:
    """Return the table as a LaTeX tabular, in the paper's layout; it needs the package booktabs."""
    columns = table.study.columns
    rows = [["Model", *map(title, columns)], *_grid(table, bold=r"\textbf{{{}}}")]
    lines = [" & ".join(map(_escape, row)) + r" \\" for row in rows]
    lines.insert(1, r"\midrule")
    begin = rf"\begin{{tabular}}{{l{'c' * len(columns)}}}"
    return "\n".join(
        [f"% {table.study.title}", begin, r"\toprule", *lines, r"\bottomrule", r"\end{tabular}", ""]
    )


def _escape(text: str) -> str:
    marks = {"±": r"$\pm$", "†": r"$^\dagger$", "· ": r"\quad ", "%": r"\%", "_": r"\_", "&": r"\&"}
    for plain, escaped in marks.items():
        text = text.replace(plain, escaped)
    return text


def table_text(table: Table) -> str:
    """Return the table for a terminal of 80 columns: one line per cell, tasks without any run left out."""
    study = table.study
    lines = [study.title]
    for task in study.columns:
        if task not in tasks_with_runs(table):
            continue
        lines.append(f"{title(task)}, test {table.metric_of(task).label}, {table.study.scale}")
        for norm in study.rows:
            paper = table.paper(norm, task)
            quoted = f"paper {paper:<7} {table.verdict(norm, task)}" if paper else ""
            label = title(norm)
            if len(label) > LABEL:  # on lines of its own
                lines += textwrap.wrap(label, WIDTH, initial_indent="  ", subsequent_indent="    ")
                label = ""
            lines.append(f"  {label:<{LABEL}} {table.ours(norm, task):<24} {quoted}".rstrip())
    empty = [task for task in study.columns if task not in tasks_with_runs(table)]
    if empty:
        lines.append(f"no runs yet: {', '.join(map(title, empty))}")
    return "\n".join(lines)


FORMATS = {"md": table_markdown, "csv": table_csv, "tex": table_latex}
