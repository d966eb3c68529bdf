"""The comparisons of all pairs of norms on each task, as text."""

from collections.abc import Sequence

from adanorm.config.titles import mean_text, task_metric, title
from adanorm.reporting.tables.table import with_gpu
from adanorm.reporting.text import (
    csv_text,
    how_to_read,
    markdown,
    outlook,
    page,
    table_block,
)
from adanorm.stats.conjunction import League
from adanorm.verdicts.task_league import TaskLeague

HEADER = (
    "Model", "score", "seeds", "group", "lead over LayerNorm", "answer",
)  # fmt: skip


def league_markdown(leagues: Sequence[TaskLeague]) -> str:
    """Return the leagues in Markdown: a row per norm, then P(row > column) of each pair."""
    blocks = ["# Which norms can be told apart", how_to_read("League")]
    for task_league in leagues:
        task = task_league.task
        league = task_league.league
        metric = task_metric(task).label
        plan = f"scale {task_league.plan.scale}, plan `{task_league.plan.name}`"
        blocks.append(f"## {title(task)} ({metric}), {plan}")
        rows = [_row(task_league, norm) for norm in league.scores]
        blocks.append(table_block(HEADER, rows))
        header = [
            "P(row > column)",
            *(markdown(title(norm)) for norm in league.scores),
        ]
        rows = [_chances(league, norm) for norm in league.scores]
        blocks.append(table_block(header, rows))
        margin = f"Margin {task_league.plan.margin:g}."
        blocks.append(f"{margin} {markdown(outlook(league, title))}")
        left_out = [f"{title(norm)} ({why})" for norm, why in task_league.left_out.items()]
        if left_out:
            blocks.append(f"Not compared: {markdown(', '.join(left_out))}.")
    return page(blocks)


def _row(task_league: TaskLeague, norm: str) -> list[str]:
    """Return a norm's row, one text for each of HEADER."""
    league = task_league.league
    sign = task_metric(task_league.task).sign
    scores = [sign * score for score in league.scores[norm].values()]
    lead = ["-", "-"]
    both = task_league.pairs.get(norm)
    if both is not None and both.comparison is not None:
        lead = [both.comparison.text, both.answer]
    name = markdown(title(norm))
    return [
        name,
        mean_text(scores, 2),
        with_gpu(str(len(scores)), task_league.cells[norm]),
        league.letters[norm],
        *lead,
    ]


def _chances(league: League, norm: str) -> list[str]:
    row = [markdown(title(norm))]
    for rival in league.scores:
        chance = None if rival == norm else league.chance(norm, rival)
        row.append("-" if chance is None else f"{chance:.2f}")
    return row


def league_csv(leagues: Sequence[TaskLeague]) -> str:
    """Return the unrounded scores as CSV in the format of `adanorm verdict`."""
    rows = []
    for task_league in leagues:
        task = task_league.task
        sign = task_metric(task).sign
        for norm, by_seed in task_league.league.scores.items():
            rows += [[task, norm, seed, sign * score] for seed, score in by_seed.items()]
    return csv_text(["task", "name", "seed", "score"], rows)
