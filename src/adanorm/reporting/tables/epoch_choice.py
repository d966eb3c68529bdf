"""What choosing one epoch costs, as text."""

from __future__ import annotations

from collections.abc import Sequence

from adanorm.reporting.names import task_metric, title
from adanorm.reporting.tables.markdown import markdown_table
from adanorm.reporting.verdicts.epoch_choice import EpochChoice

COLUMNS = (
    "task", "scale", "runs", "degrees of freedom", "s of the chosen epoch's score", "s of the level",
    "seeds of levels for 10", "won by choosing on the test set",
)  # fmt: skip
NOTE = (
    "Of runs whose test score was taken at every evaluation; no choice was made by it. *s* is the standard"
    " deviation over seeds, pooled over groups of runs that differ in their seed alone: of the test score at"
    " the epoch with the best validation score, which the tables show, and of the level, the mean test score"
    " of the last third of the evaluations. *Seeds of levels for 10*: how many seeds of levels tell as much"
    " as ten of chosen epochs. *Won by choosing on the test set*: by how much the best epoch of the test set"
    " is better than the chosen one, on average, in the task's unit: what a paper gains that chooses so."
)


def epoch_choice_markdown(found: Sequence[EpochChoice]) -> str:
    """Return the numbers in Markdown, a line a task and scale."""
    lines = ["# What choosing one epoch costs", ""]
    if not found:
        return "\n".join([*lines, "No task has two seeds of runs that tracked their test score.", ""])
    return "\n".join([*lines, *markdown_table(COLUMNS, map(_row, found)), "", NOTE, ""])


def _row(choice: EpochChoice) -> list[str]:
    metric = task_metric(choice.task)
    return [
        f"{title(choice.task)} ({metric.label})",
        choice.scale,
        str(choice.runs),
        str(choice.df),
        f"{choice.sd_chosen:.3f}",
        f"{choice.sd_level:.3f}",
        f"{choice.seeds_for_ten:.1f}",
        f"{choice.won_on_test:+.3f}",
    ]
