"""The comparisons of all pairs of norms on each task, as text."""

from collections.abc import Callable, Sequence

from adanorm.config.titles import counted, task_metric, title
from adanorm.metrics.table import mean_text
from adanorm.reporting.text import csv_text, how_to_read, markdown, markdown_table
from adanorm.stats.conjunction import League
from adanorm.verdicts.sentences import listed
from adanorm.verdicts.task_league import TaskLeague

BASE = "layernorm"
HEADER = (
    "Model",
    "score",
    "seeds",
    "group",
    "lead over LayerNorm",
    "95 % interval",
    "sign",
    "size",
)


def league_markdown(leagues: Sequence[TaskLeague]) -> str:
    """Return the leagues in Markdown: for each task one row per norm, and P(row > column) of each pair."""
    lines = ["# Which norms can be told apart", "", how_to_read("League")]
    for one in leagues:
        names, left_out = (
            [*one.league.scores],
            [f"{title(n)} ({why})" for n, why in one.left_out.items()],
        )
        lines += [
            "",
            f"## {title(one.task)} ({task_metric(one.task).label}), scale {one.scale}",
            "",
        ]
        lines += [*markdown_table(HEADER, (_row(one, name) for name in names)), ""]
        header = ["P(row > column)", *(markdown(title(name)) for name in names)]
        lines += [*markdown_table(header, (_chances(one.league, name) for name in names)), ""]
        lines.append(f"Margin {one.margin:g}. {markdown(outlook(one.league, title))}")
        lines += ["", f"Not compared: {markdown(', '.join(left_out))}."] if left_out else []
    return "\n".join([*lines, ""])


def _row(of_task: TaskLeague, name: str) -> list[str]:
    league, sign = of_task.league, task_metric(of_task.task).sign
    scores = [sign * score for score in league.scores[name].values()]
    about = [markdown(title(name)), mean_text(scores, 2), str(len(scores)), league.letters[name]]
    one = league.comparison(name, BASE) if BASE in league.scores and name != BASE else None
    if one is None:
        return [*about, *["-"] * 4]
    return [*about, f"{one.gap:+.{one.digits}f}", one.interval.text(one.digits), one.sign, one.size]


def _chances(league: League, name: str) -> list[str]:
    chances = ((other, league.chance(name, other)) for other in league.scores)
    return [
        markdown(title(name)),
        *("-" if p is None or n == name else f"{p:.2f}" for n, p in chances),
    ]


def outlook(league: League, label: Callable[[str], str] = str) -> str:
    """Return how many pairs are told apart, and which pairs the next look, or one more seed, would add."""
    count = f"{len(league.told_apart)} of {counted(len(league.pairs), 'pair')}"
    when = "the next look" if league.looks else "one more seed of each"
    pairs = listed(
        [f"{label(first)} from {label(second)}" for first, second in league.next_told_apart]
    )
    with_these = "with these means and deviations, would tell apart"
    return f"Told apart: {count}; {when}, {with_these} {pairs or 'no more'}."


def league_csv(leagues: Sequence[TaskLeague]) -> str:
    """Return the unrounded scores as CSV in the format of `adanorm verdict`."""
    rows = [
        [one.task, norm, seed, task_metric(one.task).sign * score]
        for one in leagues
        for norm, by_seed in one.league.scores.items()
        for seed, score in by_seed.items()
    ]
    return csv_text(["task", "name", "seed", "score"], rows)
