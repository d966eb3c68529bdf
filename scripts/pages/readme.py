"""The README's answers and its table, written from the records."""

from collections.abc import Mapping, Sequence

from adanorm.config.paths import PROJECT
from adanorm.config.titles import title
from adanorm.reporting.tables.claims import (
    ANSWER_COLUMNS,
    answer_rows,
    corrections,
    headline,
    question,
)
from adanorm.reporting.tables.table import Table
from adanorm.reporting.text import markdown, markdown_table
from adanorm.verdicts.claims import task_answers

README = PROJECT / "README.md"


def readme(tables: Mapping[str, Table]) -> str:
    """Return the text of README.md with the answer and the tables from the records."""
    overview = next(table for table in tables.values() if "readme" in table.study.roles)
    text = README.read_text("utf-8")
    for part, content in {
        **answer_parts(),
        "overview": summary_table(overview),
    }.items():
        text = _with_part(text, part, content)
    return text


def answer_parts() -> dict[str, str]:
    """Return `answer`, one sentence, and `answers`, a row per data set and the correction."""
    answers = task_answers(question())
    rows = markdown_table(ANSWER_COLUMNS, answer_rows(answers))
    return {
        "answer": f"**{headline(answers)}**",
        "answers": "\n".join([*rows, "", corrections(answers)]),
    }


def summary_table(table: Table) -> str:
    """Return a Markdown table of the tasks that have runs: our scores beside the paper's."""
    study = table.study
    tasks = [column.task for column in table.begun]
    header = ["Model", *(column.label for column in table.begun)]
    rows = []
    for norm in study.rows:
        rows.append(
            [
                markdown(title(norm)),
                *(_cell(table, norm, task) for task in tasks),
            ]
        )
    return "\n".join([*markdown_table(header, rows), "", _seeds(table, tasks)])


def _seeds(table: Table, tasks: Sequence[str]) -> str:
    """Return one sentence on the seeds per cell: the planned number, and the cells with others."""
    planned, exceptions = len(table.study.seeds), []
    for task in tasks:
        unplanned = []
        for norm, cell in table.columns[task].cells.items():
            if len(cell.by_seed) not in (0, planned):
                unplanned.append(f"{title(norm)} {len(cell.by_seed)}")
        if unplanned:
            exceptions.append(f"on {title(task)}: {', '.join(unplanned)}")
    text = f"Seeds: {planned} per cell"
    return f"{text}, except {'; '.join(exceptions)}." if exceptions else f"{text}."


def _cell(table: Table, norm: str, task: str) -> str:
    paper = table.paper(norm, task)
    return markdown(table.ours(norm, task)) + (f" [{paper}]" if paper else "")


def _with_part(readme: str, part: str, text: str) -> str:
    """Return the README with `text` between the two marks of a part.

    Raises ValueError where the marks are missing.
    """
    first, last = (
        f"<!-- {part}: written by `scripts/regenerate` -->",
        f"<!-- /{part} -->",
    )
    before, _, rest = readme.partition(first)
    if last not in rest:
        raise ValueError(f"README.md has no part {first} ... {last}")
    return f"{before}{first}\n{text}\n{last}{rest.partition(last)[2]}"
