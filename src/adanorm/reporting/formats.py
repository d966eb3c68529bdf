"""A study's table as text: Markdown, CSV, LaTeX, the terminal, the README."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from statistics import fmean

from adanorm.reporting.published import published_metric
from adanorm.reporting.tables import UNCONFIRMED, Table

TITLES = {
    "none": "w/o Norm",
    "layernorm": "LayerNorm",
    "layernorm-simple": "LayerNorm-simple",
    "detachnorm": "DetachNorm",
    "detach-mean": "Detach Mean",
    "detach-var": "Detach Variance",
    "adanorm": "AdaNorm",
    "en-de": "En-De",
    "de-en": "De-En",
    "en-vi": "En-Vi",
    "enwik8": "Enwiki8",
    "rt": "RT",
    "sst5": "SST5",
    "mnist": "MNIST",
    "ptb": "PTB",
}


def title(name: str) -> str:
    """Return the name of a norm or a task as the paper writes it; another name as it is."""
    return TITLES.get(name, name)


def _notes(table: Table) -> list[str]:
    notes = [
        f"Test score at the best validation step, mean ± standard deviation over seeds"
        f" {', '.join(map(str, table.study.seeds))}; `-`: not run. Scale: {table.study.scale}."
    ]
    if any(_unit(table, task) in ("BLEU", "bleu") for task in table.study.columns):
        notes.append(
            "BLEU: on the corpus's own words, without smoothing, as multi-bleu and fairseq-score count it"
            " (sacrebleu: tok:none, smooth:none). `python -m adanorm.tables NAME --metric sacrebleu` prints"
            " that of running text, `--metric compound_bleu` that with compounds split."
        )
    if table.study.budget:
        notes.append(
            f"The same budget for every cell: {', '.join(table.study.budget)}. Shown is the best by mean"
            " validation score over the seeds, in brackets which; test scores had no part in it."
        )
    if not table.comparable:
        why = "its numbers are not comparable."
        notes.append(f"Not the paper's data or settings: {table.study.quote or why}")
    if table.comparable:
        notes.append(
            "*reproduced*: the paper's number lies within two standard deviations of our mean; *differs*:"
            " outside the 95 % prediction interval of one more run; *cannot be told apart*: between, or under"
            " three seeds."
        )
    if any(UNCONFIRMED in table.paper(norm, task) for norm, task in table.cells):
        notes.append(f"{UNCONFIRMED} from a recollection of the paper; no public source confirms the row.")
    return notes


def _grid(table: Table) -> list[list[str]]:
    """Return the rows of the wide table, the paper's layout: a norm's ours, paper, verdict."""
    study = table.study
    rows = []
    for norm in study.rows:
        rows.append([title(norm), *(table.ours(norm, task) for task in study.columns)])
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


def markdown(table: Table) -> str:
    """Return the table in Markdown, in the paper's layout."""
    study = table.study
    header = ["Model", *(f"{title(task)} ({_unit(table, task)})" for task in study.columns)]
    lines = [f"# {study.title}", "", _row(header), _row(["---"] * len(header))]
    lines += [_row(row) for row in _grid(table)]
    return "\n".join([*lines, "", "\n\n".join(_notes(table)), ""])


def _row(fields: Sequence[str]) -> str:
    return f"| {' | '.join(fields)} |"


def _unit(table: Table, task: str) -> str:
    own = next((c.metric for (_, t), c in table.cells.items() if c and t == task), "")
    return own if own == table.metric else published_metric(task) or own


def comma_separated(table: Table) -> str:
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
                _unit(table, task),
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


def latex(table: Table) -> str:
    """Return the table as a LaTeX tabular, in the paper's layout."""
    columns = table.study.columns
    lines = [
        f"% {table.study.title}",
        rf"\begin{{tabular}}{{l{'c' * len(columns)}}}",
        r"\hline",
        " & ".join(["Model", *map(title, columns)]) + r" \\",
        r"\hline",
    ]
    for row in _grid(table):
        escaped = [_escape(field) for field in row]
        lines.append(" & ".join(escaped) + r" \\")
    return "\n".join([*lines, r"\hline", r"\end{tabular}", ""])


def _escape(text: str) -> str:
    for plain, escaped in (("±", r"$\pm$"), ("†", r"$^\dagger$"), ("· ", r"\quad "), ("%", r"\%")):
        text = text.replace(plain, escaped)
    return text


def terminal(table: Table) -> str:
    """Return the table for a terminal of 80 columns: a line a cell, tasks without any run left out."""
    study = table.study
    lines = [study.title]
    for task in study.columns:
        if all(table.ours(norm, task) == "-" for norm in study.rows):
            continue
        lines.append(f"{title(task)}, test {_unit(table, task)}, {table.study.scale}")
        for norm in study.rows:
            quoted = (
                f"paper {table.paper(norm, task):<8} {table.verdict(norm, task)}" if table.shows_paper else ""
            )
            lines.append(f"  {title(norm):<18} {table.ours(norm, task):<26} {quoted}".rstrip())
    empty = [t for t in study.columns if all(table.ours(norm, t) == "-" for norm in study.rows)]
    if empty:
        lines.append(f"no runs yet: {', '.join(map(title, empty))}")
    return "\n".join(lines)


MARKS = ("<!-- overview: written by `make tables` -->", "<!-- /overview -->")


def compact(table: Table) -> str:
    """Return a Markdown table of the tasks that have runs: ours, with the paper's number behind it."""
    study = table.study
    tasks = [t for t in study.columns if any(table.ours(norm, t) != "-" for norm in study.rows)]
    header = ["Model", *(f"{title(task)} ({_unit(table, task)})" for task in tasks)]
    lines = [_row(header), _row(["---"] * len(header))]
    for norm in study.rows:
        cells = [f"{table.ours(norm, task)} [{table.paper(norm, task)}]" for task in tasks]
        lines.append(_row([title(norm), *cells]))
    return "\n".join(lines)


def into_readme(readme: str, table: Table) -> str:
    """Return the README's text with the compact table between its marks."""
    before, _, rest = readme.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    return f"{before}{MARKS[0]}\n{compact(table)}\n{MARKS[1]}{after}"
