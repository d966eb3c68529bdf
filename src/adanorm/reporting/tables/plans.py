"""The answers of plans that were written after the first runs, as a page."""

from collections.abc import Sequence

from adanorm.config.titles import METRICS, listed, task_metric, title
from adanorm.reporting.tables.answers import gain_text
from adanorm.reporting.tables.table import seeds_text
from adanorm.reporting.text import how_to_read, page, table_block
from adanorm.verdicts.later_answers import LaterAnswer

COLUMNS = (
    "plan", "data set", "score", "compared", "seeds", "lead (95 %)", "size (90 %)", "answer",
)  # fmt: skip


def plans_markdown(answers: Sequence[LaterAnswer], void: Sequence[str]) -> str:
    """Return the answers of later plans in Markdown; `void` are the plans that can have no runs."""
    blocks = ["# What later plans answer", how_to_read("Later plans")]
    if void:
        blocks.append(f"Void, as their study or scale was never written: {listed(void)}.")
    blocks.append(table_block(COLUMNS, map(_row, answers)))
    return page(blocks)


def _row(answer: LaterAnswer) -> list[str]:
    plan = answer.plan
    metric = METRICS["chrf"] if plan.quantity == "chrf" else task_metric(plan.task)
    worse, better = map(title, answer.norms)
    about = [plan.name, title(plan.task, plan.scale), metric.label, f"{better} with {worse}"]
    if answer.pair is None:
        return [*about, "", "", "", "not read: the bed is no positive control yet"]
    comparison = answer.pair.comparison
    if comparison is None:
        if answer.pair.has_looked:  # at runs that diverged
            runs = min(len(side.results) for side in answer.pair.sides)
            seeds = seeds_text(runs, answer.pair)
            return [*about, seeds, "", "", f"**{answer.pair.answer}**: {answer.pair.remark}"]
        seeds = f"{len(answer.pair.seeds)} of {min(plan.reads or plan.looks.after)}"
        return [*about, seeds, "", "", "not run: before its first look"]
    interval = comparison.margin_interval.text(comparison.digits)
    size = f"{comparison.size}, ±{plan.margin:g} ({interval})"
    bold = f"**{answer.pair.answer}**"
    seeds = seeds_text(comparison.seeds, answer.pair)
    return [*about, seeds, gain_text(comparison), size, bold]
