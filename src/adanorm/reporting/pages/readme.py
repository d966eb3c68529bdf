"""The README's answers and its table, written from the records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from adanorm.config.titles import title
from adanorm.reporting.tables.formats import tasks_with_runs
from adanorm.reporting.tables.markdown import markdown_table
from adanorm.reporting.tables.table import Table
from adanorm.verdicts.claims import SCALES, ClaimResult, TaskResult
from adanorm.verdicts.preregistration import Claim
from adanorm.verdicts.sentences import claim_sentence, count, data_sets, listed, task_sentences

QUESTION = "adanorm"  # the claim that answers the README's question
SIZES = {"paper": "at the paper's size", "mini": "at scale mini"}


class Answers(NamedTuple):
    """What the records say of the question: in one sentence, of the claim, and task by task."""

    short: str
    claim: str
    tasks: list[str]


def answers(judgements: Sequence[ClaimResult]) -> Answers:
    """Return what the records say of the question, as Markdown.

    Each task at the paper's size if it has runs of both norms there, else at mini scale.
    """
    found = {result.scale: result for result in judgements if result.claim.id == QUESTION}
    shown: dict[str, tuple[str, TaskResult]] = {}
    for scale in SCALES:
        for result in found[scale].run:
            shown.setdefault(result.task, (scale, result))
    first = found[SCALES[0]]
    said = []
    for task, (scale, result) in shown.items():
        where = ", ".join([title(task), SIZES[scale], *result.claim.overrides(scale, task)])
        said.append(f"{where}, {task_sentences(result)}")
    missing = [_not_run(first.claim, task) for task in first.claim.tasks if task not in shown]
    smaller = [task for task, (scale, _) in shown.items() if scale != SCALES[0]]
    short = short_answer(first.claim, {task: result.answer for task, (_, result) in shown.items()}, smaller)
    return Answers(short, f"At the paper's size: {claim_sentence(first)}", [*said, *missing])


def _not_run(claim: Claim, task: str) -> str:
    """Return that a claim's task has no runs; and of which settings, where others than its own are read."""
    read = [f"{SIZES[scale]} with {listed(claim.overrides(scale, task))}" for scale in SCALES
            if claim.overrides(scale, task)]  # fmt: skip
    return f"{title(task)}: not run{' yet ' if read else ''}{listed(read)}."


def answers_markdown(judgements: Sequence[ClaimResult]) -> str:
    """Return the answers as the README has them: two paragraphs and a list."""
    said = answers(judgements)
    return "\n".join([f"**{said.short}**", "", said.claim, "", *(f"- {task}" for task in said.tasks)])


def short_answer(claim: Claim, by_task: Mapping[str, str], smaller: Sequence[str] = ()) -> str:
    """Return in one sentence on which of a claim's tasks the norm is better, and what it is on the others.

    A second one says what the paper has, and a third which tasks are answered at mini scale, the `smaller`.
    """
    where = {
        answer: [title(task) for task, found in by_task.items() if found == answer]
        for answer in ("better", "worse", "equivalent", "open")
    }
    better = where.pop("better")
    named = f" ({listed(better)})" if better else ""
    parts = [f"{answer} on {listed(tasks)}" for answer, tasks in where.items() if tasks]
    missing = len(claim.tasks) - len(by_task)
    parts += [f"{count(missing)} without runs"] if missing else []
    others = f": {', '.join(parts)}" if parts else ""
    return (
        f"Better on {count(len(better))} of {data_sets(len(claim.tasks))} so far{named}{others}."
        f" The paper has it better on {count(claim.needed('paper'))}."
        f"{f' At mini scale: {listed([title(task) for task in smaller])}.' if smaller else ''}"
    )


def summary_table(table: Table) -> str:
    """Return a Markdown table of the tasks that have runs: ours, with the paper's number behind it."""
    study = table.study
    tasks = tasks_with_runs(table)
    header = ["Model", *(f"{title(task)} ({table.metric_of(task).label})" for task in tasks)]
    rows = [
        [title(norm), *(f"{table.ours(norm, task)}{_in_brackets(table.paper(norm, task))}" for task in tasks)]
        for norm in study.rows
    ]
    return "\n".join([*markdown_table(header, rows), "", _seeds(table, tasks)])


def _seeds(table: Table, tasks: Sequence[str]) -> str:
    """Return how many seeds the cells are of: the planned ones, and where there are others."""
    planned = len(table.study.seeds)
    others = []
    for task in tasks:
        counts = {norm: len(cell.by_seed) for norm in table.study.rows if (cell := table.cells[norm, task])}
        own = [f"{title(norm)} {count}" for norm, count in counts.items() if count not in (0, planned)]
        others += [f"on {title(task)} {', '.join(own)}"] if own else []
    return f"Seeds: {planned} a cell{', but ' if others else ''}{'; '.join(others)}."


def _in_brackets(number: str) -> str:
    return f" [{number}]" if number else ""


def update_readme(readme: str, part: str, text: str) -> str:
    """Return the README with a part's text between its two marks.

    Raises ValueError where the marks are not there.
    """
    first, last = f"<!-- {part}: written by `make tables` -->", f"<!-- /{part} -->"
    before, found, rest = readme.partition(first)
    _, ended, after = rest.partition(last)
    if not (found and ended):
        raise ValueError(f"README.md has no part {first} ... {last}")
    return f"{before}{first}\n{text}\n{last}{after}"
