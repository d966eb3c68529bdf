"""The answers of plans that were written after the first runs, as a page."""

from collections.abc import Sequence

from adanorm.config.titles import listed, task_metric, title
from adanorm.metrics.table import METRICS
from adanorm.reporting.text import how_to_read, markdown_table
from adanorm.verdicts.later_answers import LaterAnswer

COLUMNS = (
    "plan", "data set", "score", "compared", "seeds", "lead (95 %)", "size (90 %)", "answer",
)  # fmt: skip
CONTROL = "positive-control"  # a plan of conf/plans/later.yaml
CONTROL_PAGE = "docs/results.md#could-these-beds-show-that-a-norm-is-worth-something"


def plans_markdown(answers: Sequence[LaterAnswer], void: Sequence[str]) -> str:
    """Return the answers of later plans in Markdown; `void` are the plans that can have no runs."""
    lines = ["# What later plans answer", "", how_to_read("Later plans"), ""]
    if void:
        lines += [f"Void, as their study or scale was never written: {listed(list(void))}.", ""]
    lines += markdown_table(COLUMNS, map(_row, answers))
    return "\n".join([*lines, ""])


def control_sentence(answers: Sequence[LaterAnswer]) -> str:
    """Return what AdaNorm's answer is where a norm is needed, by the positive control; perhaps ''."""
    of_control = {answer.norms: answer for answer in answers if answer.plan.name == CONTROL}
    opening, asked = of_control.get(("none", "layernorm")), of_control.get(("layernorm", "adanorm"))
    if opening is None or asked is None or opening.pair is None or asked.pair is None:
        return ""
    comparison = asked.pair.comparison
    if comparison is None:
        return ""
    metric, digits = task_metric(asked.plan.task), comparison.digits
    gain = f"{comparison.gap:+.{digits}f} {metric.label} (95 %: {comparison.interval.text(digits)})"
    seeds = f"{comparison.seeds} seeds, margin {asked.plan.margin:g}"
    remark = f"; {opening.pair.remark}" if opening.pair.remark else ""
    return (
        f"Where a norm is needed ([positive control]({CONTROL_PAGE}): {title(asked.plan.task)} with a"
        f" deeper network{remark}), AdaNorm is {asked.pair.answer} than LayerNorm:"
        f" {gain}, {seeds}."
    )


def _row(answer: LaterAnswer) -> list[str]:
    plan = answer.plan
    metric = METRICS["chrf"] if plan.quantity == "chrf" else task_metric(plan.task)
    worse, better = map(title, answer.norms)
    about = [plan.name, title(plan.task), metric.label, f"{better} with {worse}"]
    if answer.pair is None:
        return [*about, "", "", "", "not read: the bed is no positive control yet"]
    comparison = answer.pair.comparison
    if comparison is None:
        seeds = f"{len(answer.pair.seeds)} of {min(plan.reads or plan.looks.after)}"
        remark = answer.pair.remark if answer.pair.has_looked else "before its first look"
        word = answer.pair.answer if answer.pair.has_looked else "not run"
        return [*about, seeds, "", "", f"{word}: {remark}"]
    digits = comparison.digits
    lead = f"{comparison.gap:+.{digits}f} ({comparison.interval.text(digits)})"
    size = f"{comparison.size}, ±{plan.margin:g} ({comparison.margin_interval.text(digits)})"
    return [*about, str(comparison.seeds), lead, size, f"**{answer.pair.answer}**"]
