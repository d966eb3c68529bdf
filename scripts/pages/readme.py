"""The README's answers and its table, written from the records."""

from collections.abc import Mapping, Sequence

from adanorm.config.paths import PROJECT
from adanorm.config.titles import title
from adanorm.reporting.tables.claims import ANSWER_COLUMNS, answer_rows, corrections, headline, question
from adanorm.reporting.tables.formats import column_label, tasks_with_runs
from adanorm.reporting.tables.table import Table
from adanorm.reporting.text import markdown, markdown_table
from adanorm.verdicts.claims import task_answers

README = PROJECT / "README.md"


def readme(tables: Mapping[str, Table]) -> str:
    """Return README.md with the answer and the tables that the records give."""
    overview = next(table for table in tables.values() if "readme" in table.study.roles)
    text = README.read_text("utf-8")
    for part, written in {**answer_parts(), "overview": summary_table(overview)}.items():
        text = _with_part(text, part, written)
    return text


def answer_parts() -> dict[str, str]:
    """Return the answer as one sentence, and as one row per data set with the correction for their number."""
    answers = task_answers(question())
    rows = markdown_table(ANSWER_COLUMNS, answer_rows(answers))
    return {"answer": f"**{headline(answers)}**", "answers": "\n".join([*rows, "", corrections(answers)])}


def summary_table(table: Table) -> str:
    """Return a Markdown table of the tasks that have runs: ours, with the paper's number behind it."""
    study = table.study
    tasks = tasks_with_runs(table)
    header = ["Model", *(column_label(table, task) for task in tasks)]
    rows = [[markdown(title(norm)), *(_cell(table, norm, task) for task in tasks)] for norm in study.rows]
    return "\n".join([*markdown_table(header, rows), "", _seeds(table, tasks)])


def _seeds(table: Table, tasks: Sequence[str]) -> str:
    """Return how many seeds the cells are of: the planned ones, and where there are others."""
    planned, others = len(table.study.seeds), []
    for task in tasks:
        counts = {norm: len(cell.by_seed) for norm, cell in table.column(task).items()}
        own = [f"{title(norm)} {count}" for norm, count in counts.items() if count not in (0, planned)]
        others += [f"on {title(task)}: {', '.join(own)}"] if own else []
    return f"Seeds: {planned} per cell{', except ' if others else ''}{'; '.join(others)}."


def _cell(table: Table, norm: str, task: str) -> str:
    paper = table.paper(norm, task)
    return markdown(table.ours(norm, task)) + (f" [{paper}]" if paper else "")


def _with_part(readme: str, part: str, text: str) -> str:
    """Return the README with a part's text between its two marks.

    Raises ValueError where the marks are not there.
    """
    first, last = f"<!-- {part}: written by `scripts/regenerate` -->", f"<!-- /{part} -->"
    before, _, rest = readme.partition(first)
    if last not in rest:
        raise ValueError(f"README.md has no part {first} ... {last}")
    return f"{before}{first}\n{text}\n{last}{rest.partition(last)[2]}"
