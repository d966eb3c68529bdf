"""What choosing one epoch costs, as text."""

from __future__ import annotations

from collections.abc import Sequence

from adanorm.config.titles import task_metric, title
from adanorm.reporting.text import markdown_table
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
NOTE = (
    "Of runs whose test score was taken at every evaluation; no choice was made by it. *s* is the standard"
    " deviation over seeds, pooled over groups of runs that differ in their seed alone: of the test score at"
    " the epoch with the best validation score, which the tables show, and of the level, the mean test score"
    " of the last third of the evaluations. *Seeds of levels for 10*: how many seeds of levels tell as much"
    " as ten of chosen epochs, with the 95 % interval of the ratio of two variances in the same runs (Pitman"
    " 1939, Morgan 1939). *Won by choosing on the test set*: by how much the best epoch of the test set is"
    " better than the chosen one, on average, in the task's unit: what a paper gains that chooses so."
)
NOTE_OF_AVERAGES = (
    "The same of runs whose test score is that of the mean of the weights of the last, or the best,"
    " evaluations, where the chosen epoch's score is that of the same run. *Won by averaging*: by how much"
    " the averaged weights' score is better than the chosen epoch's, on average."
)


def epoch_choice_markdown(choices: Sequence[EpochChoice]) -> str:
    """Return the numbers in Markdown, one row per task and scale; those of averaged weights apart."""
    lines = ["# What choosing one epoch costs", ""]
    if not choices:
        return "\n".join([*lines, "No task has two seeds of runs that tracked their test score.", ""])
    alone = [choice for choice in choices if choice.averaged is None]
    lines += [*markdown_table(COLUMNS, map(_row, alone)), "", NOTE, ""]
    if averaged := [choice for choice in choices if choice.averaged is not None]:
        table = markdown_table(OF_AVERAGES, map(_row, averaged))
        lines += ["## Averaged weights", "", *table, "", NOTE_OF_AVERAGES, ""]
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
