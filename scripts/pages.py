"""Write the pages of this repository that show records: `python -m scripts.pages`.

They are the README's answers and table, and docs/norms.md.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mode

from adanorm.config.paths import PROJECT
from adanorm.config.titles import listed, title
from adanorm.files import write_whole
from adanorm.records.folder import path_text
from adanorm.reporting.report import read_tables
from adanorm.reporting.tables.answers import (
    ANSWER_COLUMNS,
    PAGE,
    answer_rows,
    corrections,
    decided,
    question,
    repeats_sentence,
    runs_sentence,
    score_sentence,
)
from adanorm.reporting.tables.summary import (
    answer_sentence,
    control_sentence,
    craft_sentence,
    paper_sentence,
    protocol_sentence,
    standing,
)
from adanorm.reporting.tables.table import Table, on_gpu
from adanorm.reporting.text import markdown, markdown_table
from adanorm.verdicts.claims import claim_results, task_answers
from adanorm.verdicts.later_answers import answers_of
from adanorm.verdicts.protocol import task_protocols
from adanorm.verdicts.summary import summary
from scripts.norm_guide import GUIDE, draw, guide

README = PROJECT / "README.md"
MARGIN = "A *margin* is the smallest difference that matters on a data set, fixed beforehand."
PAGES = (
    "How each is computed: [the average](results/tables/summary.md),"
    " [choosing among runs](results/tables/protocol.md)."
)


def pages() -> dict[Path, str]:
    """Return the text of every page, by its path."""
    tables = read_tables()
    return {README: readme(tables), GUIDE: guide(tables)}


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
    """Return `answer`, the headline, `answers`, a row per data set, and `runs`, what has run."""
    answers = task_answers(question())
    rows = markdown_table(ANSWER_COLUMNS, answer_rows(answers, PAGE))
    over_all = summary(answers)
    headline = f"**{answer_sentence(answers)}**"
    points = []
    if over_all is not None:
        headline = f"{headline} {MARGIN}"
        points = [
            decided(answers),
            paper_sentence(over_all, answers),
            protocol_sentence(task_protocols()),
            control_sentence(answers_of("positive-control")),
            craft_sentence(answers_of("craft")),
            repeats_sentence(claim_results()),
            f"{PAGES} {standing(over_all)}",
        ]
    return {
        "answer": "\n".join([headline, "", *(f"- {point}" for point in points if point)]),
        "answers": "\n".join([*rows, "", f"{score_sentence(answers)} {corrections(answers)}"]),
        "runs": runs_sentence(answers),
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
    """Return sentences on the seeds per cell: the usual number, other numbers, and which plan's."""
    usual, exceptions = len(table.study.seeds), []
    fresh = [cell for address, cell in table.cells.items() if cell and address in table.beside]
    if fresh:
        usual = mode(len(cell.scores) for cell in fresh)
    of_first_plan = []
    for task in tasks:
        unusual = []
        for norm, cell in table.columns[task].cells.items():
            if cell.results and (norm, task) not in table.beside:
                of_first_plan.append(title(norm))
            seeds = len(cell.scores)
            if seeds not in (0, usual):
                marks = [f" ({mark})" for mark in on_gpu(cell)]
                unusual.append("".join([f"{title(norm)} {seeds}", *marks]))
        if unusual:
            exceptions.append(f"on {title(task)}: {', '.join(unusual)}")
    text = f"Seeds: {usual} per cell"
    text += f", except {'; '.join(exceptions)}." if exceptions else "."
    if fresh:
        text += " They are those of the newest plan, 41 and up"
        names = listed(list(dict.fromkeys(of_first_plan)))
        text += f"; *{names}* has run with the first plan's only." if names else "."
    return text


def _cell(table: Table, norm: str, task: str) -> str:
    paper, cell = table.paper(norm, task), table.cells[norm, task]
    is_fresh = (norm, task) in table.beside
    ours = cell.text if cell and is_fresh else table.ours(norm, task)
    return markdown(ours) + (f" [{paper}]" if paper else "")


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


if __name__ == "__main__":
    for path, text in pages().items():
        write_whole(path, text.encode())
        print(path_text(path))
    draw(PROJECT / "results" / "bench" / "norms.csv")
