"""A study's table from the records: on the terminal, and as Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from adanorm import compose, studies
from adanorm.config import PROJECT, choices
from adanorm.records.folder import shown, write_whole
from adanorm.reporting.cells import Cell, cell
from adanorm.reporting.published import published, published_tasks
from adanorm.studies import Study

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
LOWER_IS_BETTER = ("BPC",)
UNCONFIRMED = "†"


class Table:
    """The cells of a study, by (norm, task)."""

    def __init__(
        self,
        study: Study,
        *,
        scale: str | None = None,
        seeds: Sequence[int] | None = None,
        runs: str | None = None,
    ) -> None:
        self.study = study
        self.scale = scale or study.scale
        self.seeds = list(seeds or study.seeds)
        self.comparable = self.scale == "paper" and not study.overrides
        self.cells: dict[tuple[str, str], Cell | None] = {}
        for task in study.columns:
            for norm in study.rows:
                grid = studies.cell(study, task, norm, scale=scale, seeds=seeds, runs=runs)
                self.cells[norm, task] = cell(grid) if grid else None

    def ours(self, norm: str, task: str) -> str:
        """Return the text of a cell; `-` where no run has ended."""
        found = self.cells[norm, task]
        return found.text if found else "-"

    def paper(self, norm: str, task: str) -> str:
        """Return the paper's number, marked where no public source confirms it."""
        number = published(task, norm) if self.comparable else None
        return "" if number is None else number.text + ("" if number.confirmed else UNCONFIRMED)

    def verdict(self, norm: str, task: str) -> str:
        """Return the verdict of a cell; none at another scale than the paper's."""
        found = self.cells[norm, task]
        return (found.verdict if found else "not run") if self.comparable else ""

    def improvement(self, before: str, after: str, task: str) -> tuple[str, str]:
        """Return by how much `after` is better than `before`: ours, then the paper's."""
        cells = self.cells[before, task], self.cells[after, task]
        means = [fmean(c.scores) for c in cells if c is not None and c.scores]
        paper = [published(task, norm) for norm in (before, after)]
        values = [number.value for number in paper if number is not None and number.value is not None]
        sign = -1 if published_metric(task) in LOWER_IS_BETTER else 1
        digits = max((len(n.text.partition(".")[2]) for n in paper if n is not None and n.value), default=2)
        ours = f"{sign * (means[1] - means[0]) + 0:+.2f}" if len(means) == 2 else "-"
        theirs = f"{sign * (values[1] - values[0]) + 0:+.{digits}f}" if len(values) == 2 else "-"
        return ours, theirs if self.comparable else ""


def published_metric(task: str) -> str:
    """Return the paper's metric of a task, or an empty string."""
    number = published(task, "layernorm")
    return number.metric if number else ""


def _title(name: str) -> str:
    return TITLES.get(name, name)


def _notes(table: Table) -> list[str]:
    notes = [
        f"Test score at the best validation step, mean ± standard deviation over seeds"
        f" {', '.join(map(str, table.seeds))}; `-`: not run. Scale: {table.scale}."
    ]
    if not table.comparable:
        return [*notes, "Not the paper's data or settings: its numbers are not comparable."]
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
        rows.append([_title(norm), *(table.ours(norm, task) for task in study.columns)])
        if table.comparable:
            rows.append(["· paper", *(table.paper(norm, task) for task in study.columns)])
            rows.append(["· verdict", *(table.verdict(norm, task) for task in study.columns)])
    for before, after in study.improvements:
        both = [table.improvement(before, after, task) for task in study.columns]
        rows.append([f"{_title(after)} over {_title(before)}", *(ours for ours, _ in both)])
        if table.comparable:
            rows.append(["· paper", *(theirs for _, theirs in both)])
    return rows


def markdown(table: Table) -> str:
    """Return the table in Markdown, in the paper's layout."""
    study = table.study
    header = ["Model", *(f"{_title(task)} ({_unit(table, task)})" for task in study.columns)]
    lines = [f"# {study.title}", "", _row(header), _row(["---"] * len(header))]
    lines += [_row(row) for row in _grid(table)]
    return "\n".join([*lines, "", *("\n".join(_notes(table)).split("\n")), ""]).replace("\n*", "\n\n*")


def _row(fields: Sequence[str]) -> str:
    return f"| {' | '.join(fields)} |"


def _unit(table: Table, task: str) -> str:
    return published_metric(task) or next(
        (c.metric for (_, t), c in table.cells.items() if c and t == task), ""
    )


def comma_separated(table: Table) -> str:
    """Return the table as CSV: a line a cell, unrounded."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    header = "task norm metric scale scores mean diverged failed paper paper_source confirmed verdict"
    writer.writerow(header.split())
    for (norm, task), found in table.cells.items():
        number = published(task, norm) if table.comparable else None
        scores = found.scores if found else []
        counts = [found.count(status) if found else 0 for status in ("diverged", "failed")]
        quoted = [number.text, number.source, "yes" if number.confirmed else "no"] if number else ["", "", ""]
        writer.writerow(
            [
                task,
                norm,
                _unit(table, task),
                table.scale,
                " ".join(f"{score:.4f}" for score in scores),
                f"{fmean(scores):.4f}" if scores else "",
                *counts,
                *quoted,
                table.verdict(norm, task),
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
        " & ".join(["Model", *map(_title, columns)]) + r" \\",
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
        lines.append(f"{_title(task)}, test {_unit(table, task)}, {table.scale}")
        for norm in study.rows:
            quoted = (
                f"paper {table.paper(norm, task):<8} {table.verdict(norm, task)}" if table.comparable else ""
            )
            lines.append(f"  {_title(norm):<18} {table.ours(norm, task):<26} {quoted}".rstrip())
    empty = [t for t in study.columns if all(table.ours(norm, t) == "-" for norm in study.rows)]
    if empty:
        lines.append(f"no runs yet: {', '.join(map(_title, empty))}")
    return "\n".join(lines)


def write(table: Table, name: str, folder: Path | None = None) -> list[Path]:
    """Write a study's table in its three formats and return the files.

    Other scales than the study's own get a file of their own.
    """
    folder = folder or PROJECT / "results" / "tables"
    folder.mkdir(parents=True, exist_ok=True)
    stem = name if table.scale == table.study.scale else f"{name}-{table.scale}"
    texts = {".md": markdown(table), ".csv": comma_separated(table), ".tex": latex(table)}
    for suffix, text in texts.items():
        write_whole(folder / f"{stem}{suffix}", text.encode())
    return [folder / f"{stem}{suffix}" for suffix in texts]


MARKS = ("<!-- overview: written by `make tables` -->", "<!-- /overview -->")


def compact(table: Table) -> str:
    """Return a Markdown table of the tasks that have runs: ours, with the paper's number behind it."""
    study = table.study
    tasks = [t for t in study.columns if any(table.ours(norm, t) != "-" for norm in study.rows)]
    header = ["Model", *(f"{_title(task)} ({_unit(table, task)})" for task in tasks)]
    lines = [_row(header), _row(["---"] * len(header))]
    for norm in study.rows:
        cells = [f"{table.ours(norm, task)} [{table.paper(norm, task)}]" for task in tasks]
        lines.append(_row([_title(norm), *cells]))
    return "\n".join(lines)


def into_readme(readme: str, table: Table) -> str:
    """Return the README's text with the compact table between its marks."""
    before, _, rest = readme.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    return f"{before}{MARKS[0]}\n{compact(table)}\n{MARKS[1]}{after}"


def main() -> None:
    """Write the table of every study, or of those named on the command line, and the README's."""
    for name in sys.argv[1:] or choices("study"):
        table = Table(studies.load(name, known_tasks=published_tasks()))
        paths = write(table, name)
        print(f"{shown(paths[0])} and .csv, .tex")
        if name == "overview":
            readme = PROJECT / "README.md"
            write_whole(readme, into_readme(readme.read_text(), table).encode())


if __name__ == "__main__":
    compose.door(main)
