"""What the records answer to the question of the paper's title claim: in one sentence, and task by task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from adanorm.config.titles import title
from adanorm.verdicts.claims import SCALES, ClaimResult, TaskResult
from adanorm.verdicts.preregistration import Claim
from adanorm.verdicts.sentences import claim_sentence, count, data_sets, listed, task_sentences

QUESTION = "adanorm"  # the claim that answers the README's question
SIZES = {"paper": "at the paper's size", "small": "at scale small"}


class Answers(NamedTuple):
    """What the records say of the question: in one sentence, of the claim, and task by task."""

    short: str
    claim: str
    tasks: list[str]


def answers(judgements: Sequence[ClaimResult]) -> Answers:
    """Return what the records say of the question, as Markdown.

    Each task at the paper's size if it has runs of both norms there, else at scale small.
    """
    by_scale = {result.scale: result for result in judgements if result.claim.id == QUESTION}
    shown: dict[str, tuple[str, TaskResult]] = {}
    for scale in SCALES:
        for result in by_scale[scale].run:
            shown.setdefault(result.task, (scale, result))
    first = by_scale[SCALES[0]]
    tasks = []
    for task, (scale, result) in shown.items():
        where = ", ".join([title(task), SIZES[scale], *result.claim.overrides(scale, task)])
        tasks.append(f"{where}, {task_sentences(result)}")
    missing = [_not_run(first.claim, task) for task in first.claim.tasks if task not in shown]
    smaller = [task for task, (scale, _) in shown.items() if scale != SCALES[0]]
    short = short_answer(first.claim, {task: result.answer for task, (_, result) in shown.items()}, smaller)
    return Answers(short, f"At the paper's size: {claim_sentence(first)}", [*tasks, *missing])


def _not_run(claim: Claim, task: str) -> str:
    """Return that a claim's task has no runs; and of which settings, where others than its own are read."""
    read = [f"{SIZES[scale]} with {listed(claim.overrides(scale, task))}" for scale in SCALES
            if claim.overrides(scale, task)]  # fmt: skip
    return f"{title(task)}: not run{' yet ' if read else ''}{listed(read)}."


def short_answer(claim: Claim, by_task: Mapping[str, str], smaller: Sequence[str] = ()) -> str:
    """Return in one sentence on which of a claim's tasks the norm is better, and what it is on the others.

    A second one says what the paper has, and a third which tasks are answered at scale small, the `smaller`.
    """
    where = {
        answer: [title(task) for task, of_task in by_task.items() if of_task == answer]
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
        f"{f' At scale small: {listed([title(task) for task in smaller])}.' if smaller else ''}"
    )
