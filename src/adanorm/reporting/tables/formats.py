"""A study's table as text: Markdown, CSV, LaTeX, the terminal, the README."""

from __future__ import annotations

import csv
import io
import re
import textwrap
from statistics import fmean

from adanorm.config.paths import CONF, choices
from adanorm.metrics.table import METRICS
from adanorm.reporting.names import title
from adanorm.reporting.tables.markdown import markdown_row
from adanorm.reporting.tables.table import UNCONFIRMED, Table

WIDTH, LABEL = 80, 18  # columns of a terminal, of them for a row's label


def notes(table: Table) -> list[str]:
    """Return what a reader of the table must know, a paragraph each."""
    found = [
        f"Test score at the best validation step, mean ± standard deviation over seeds"
        f" {', '.join(map(str, table.study.seeds))}; `-`: not run. Scale: {table.study.scale}."
    ]
    if any(table.metric_of(task) == METRICS["bleu"] for task in table.study.columns):
        found.append(
            "BLEU: on the corpus's own words, without smoothing, as multi-bleu and fairseq-score count it"
            " (sacrebleu: tok:none, smooth:none). `adanorm tables NAME metric=sacrebleu` prints"
            " that of running text, `metric=compound_bleu` that with compounds split."
        )
    if any(table.best(task) for task in table.study.columns):
        found.append(
            "**Bold**: better than every other norm of the column by paired t-tests over seeds, corrected for"
            " their number (Holm 1979), at 0.05."
        )
    if assumed := {task: _assumed_settings(task) for task in table.study.columns if task in choices("task")}:
        counts = ", ".join(f"{title(task)} {count}" for task, count in assumed.items() if count)
        found.append(f"Settings that the paper leaves open, marked *assumed* in `conf/task/`: {counts}.")
    if table.study.budget:
        found.append(
            f"The same budget for every cell: {', '.join(table.study.budget)}. Shown is the best by mean"
            " validation score over the seeds, in brackets which; test scores had no part in it."
        )
    undefined = {row.undefined: None for row in table.study.rows.values() if row.undefined}
    found += [f"*undefined*: {reason}." for reason in undefined]
    if not table.comparable:
        why = "its numbers are not comparable."
        found.append(f"Not the paper's data or settings: {table.study.quote or why}")
    if table.comparable:
        found.append(
            "*reproduced*: the paper's number lies within two standard deviations of our mean; *differs*:"
            " outside the 95 % prediction interval of one more run; *cannot be told apart*: between, or under"
            " three seeds."
        )
    if any(UNCONFIRMED in table.paper(norm, task) for norm, task in table.cells):
        found.append(f"{UNCONFIRMED} from a recollection of the paper; no public source confirms the row.")
    return found


def _assumed_settings(task: str) -> int:
    """Return how many lines of a task's configuration carry the word assumed."""
    files = [CONF / "task" / f"{task}.yaml"]
    files += [CONF / "task" / f"{name}.yaml" for name in _SHARED.findall(files[0].read_text())]
    return sum("# assumed" in line for file in files for line in file.read_text().splitlines())


_SHARED = re.compile(r"^  - (shared/\S+)", re.MULTILINE)


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
        if table.shows_paper:
            rows.append(["· paper", *(table.paper(norm, task) for task in study.columns)])
        if table.comparable:
            rows.append(["· verdict", *(table.verdict(norm, task) for task in study.columns)])
    for before, after in study.improvements:
        both = [table.improvement(before, after, task) for task in study.columns]
        rows.append([f"{title(after)} over {title(before)}", *(ours for ours, _ in both)])
        if table.shows_paper:
            rows.append(["· paper", *(theirs for _, theirs in both)])
    return rows


def table_markdown(table: Table) -> str:
    """Return the table in Markdown, in the paper's layout."""
    study = table.study
    header = ["Model", *(f"{title(task)} ({table.metric_of(task).label})" for task in study.columns)]
    lines = [f"# {study.title}", "", markdown_row(header), markdown_row(["---"] * len(header))]
    lines += [markdown_row(row) for row in _grid(table, bold="**{}**")]
    return "\n".join([*lines, "", "\n\n".join(notes(table)), ""])


def _run(table: Table) -> list[str]:
    """Return the tasks of which some run has ended."""
    ended = {task for (_, task), found in table.cells.items() if found is not None and found.results}
    return [task for task in table.study.columns if task in ended]


def table_csv(table: Table) -> str:
    """Return the table as CSV: a line a cell, unrounded."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    header = "task norm metric scale scores mean diverged failed paper paper_source confirmed verdict"
    budget = bool(table.study.budget)
    writer.writerow([*header.split(), *(["chosen"] if budget else [])])
    for (norm, task), found in table.cells.items():
        number = table.published(norm, task)
        scores = found.scores if found else []
        counts = [found.count(status) if found else 0 for status in ("diverged", "failed")]
        quoted = [number.text, number.source, "yes" if number.confirmed else "no"] if number else ["", "", ""]
        writer.writerow(
            [
                task,
                norm,
                table.metric_of(task).label,
                table.study.scale,
                " ".join(f"{score:.4f}" for score in scores),
                f"{fmean(scores):.4f}" if scores else "",
                *counts,
                *quoted,
                table.verdict(norm, task),
                *([table.chosen.get((norm, task), "")] if budget else []),
            ]
        )
    return file.getvalue()


def table_latex(table: Table) -> str:
    """Return the table in LaTeX, in the paper's layout: a document of its own.

    A paper takes the lines of the tabular, and the package booktabs.
    """
    columns = table.study.columns
    lines = [
        r"\documentclass{article}",
        r"\usepackage[T1]{fontenc}",
        r"\usepackage[landscape,margin=1cm]{geometry}",
        r"\usepackage{booktabs,graphicx}",
        r"\pagestyle{empty}",
        r"\begin{document}",
        r"\noindent\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        f"% {table.study.title}",
        rf"\begin{{tabular}}{{l{'c' * len(columns)}}}",
        r"\toprule",
        " & ".join(["Model", *map(title, columns)]) + r" \\",
        r"\midrule",
    ]
    for row in _grid(table, bold=r"\textbf{{{}}}"):
        escaped = [_escape(field) for field in row]
        lines.append(" & ".join(escaped) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}}", r"\end{document}", ""])


def _escape(text: str) -> str:
    marks = {"±": r"$\pm$", "†": r"$^\dagger$", "· ": r"\quad ", "%": r"\%", "_": r"\_", "&": r"\&"}
    for plain, escaped in marks.items():
        text = text.replace(plain, escaped)
    return text


def table_text(table: Table) -> str:
    """Return the table for a terminal of 80 columns: a line a cell, tasks without any run left out."""
    study = table.study
    lines = [study.title]
    for task in study.columns:
        if task not in _run(table):
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
    empty = [task for task in study.columns if task not in _run(table)]
    if empty:
        lines.append(f"no runs yet: {', '.join(map(title, empty))}")
    return "\n".join(lines)
