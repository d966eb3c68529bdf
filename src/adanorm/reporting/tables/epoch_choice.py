"""What choosing one epoch costs, as text."""

from __future__ import annotations

from collections.abc import Sequence

from adanorm.config.titles import task_metric, title
from adanorm.reporting.text import how_to_read, markdown_table
from adanorm.verdicts.epoch_choice import EpochChoice, Steadier

COLUMNS = (
    "task", "scale", "runs", "degrees of freedom", "s of the chosen epoch's score", "s of the level",
    "seeds of levels for 10", "won by choosing on the test set",
)  # fmt: skip
OF_AVERAGES = (
    "task", "scale", "weights averaged", "runs", "degrees of freedom", "s of the chosen epoch's score",
    "s of the level", "s of the averaged weights' score", "seeds of levels for 10",
    "seeds of averages for 10", "won by averaging",
)  # fmt: skip


def epoch_choice_markdown(choices: Sequence[EpochChoice]) -> str:
    """Return the numbers in Markdown, one row per task and scale; those of averaged weights apart."""
    lines = ["# What choosing one epoch costs", ""]
    if not choices:
        return "\n".join([*lines, "No task has two seeds of runs that tracked their test score.", ""])
    alone = [choice for choice in choices if choice.averaged is None]
    lines += [*markdown_table(COLUMNS, map(_row, alone)), "", how_to_read("Choosing an epoch"), ""]
    if averaged := [choice for choice in choices if choice.averaged is not None]:
        table = markdown_table(OF_AVERAGES, map(_row, averaged))
        lines += ["## Averaged weights", "", *table, "", how_to_read("Averaged weights"), ""]
    return "\n".join(lines)


def _row(choice: EpochChoice) -> list[str]:
    averaged = choice.averaged
    scores = [choice.level, *([averaged] if averaged else [])]
    won = choice.won_on_test if choice.won_by_averaging is None else choice.won_by_averaging
    return [
        f"{title(choice.task)} ({task_metric(choice.task).label})",
        choice.scale,
        *([choice.over] if averaged else []),
        str(choice.runs),
        str(choice.df),
        *(f"{sd:.3f}" for sd in (choice.sd_chosen, *(score.sd for score in scores))),
        *(_seeds_for_ten(score) for score in scores),
        f"{won:+.3f}",
    ]


def _seeds_for_ten(score: Steadier) -> str:
    """Return how many seeds of a score tell as much as ten of chosen epochs, if their gaps are the same."""
    return f"{10 * score.variance_ratio:.1f} ({10 * score.low:.1f} to {10 * score.high:.1f})"
