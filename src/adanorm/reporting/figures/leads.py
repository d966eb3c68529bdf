"""One norm's lead over another: on each data set, and over the number of seeds."""

from collections.abc import Sequence
from itertools import chain

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from adanorm.config.titles import listed, task_metric, title
from adanorm.reporting.figures import style
from adanorm.reporting.tables.answers import SIZES
from adanorm.reporting.tables.summary import answer_sentence
from adanorm.stats.comparison import Comparison
from adanorm.verdicts.claims import TaskAnswer, claim_evidence
from adanorm.verdicts.evidence import Evidence
from adanorm.verdicts.pair import pair
from adanorm.verdicts.preregistration import Claim

ANSWERS = {
    "better": "#0072B2",
    "worse": "#D55E00",
    "equivalent": "#009E73",
    "open": "0.35",
}
MARGIN: style.Drawn = {
    "color": "#F0E442",
    "alpha": 0.35,
    "linewidth": 0,
}
DOT: style.Drawn = {"marker": "o", "markerfacecolor": "white"}
SIZE: style.Drawn = {
    "linewidth": 2.6,
    "solid_capstyle": "butt",
}
PAPER_LINE: style.Drawn = {
    "color": "black",
    "dashes": (2, 1.5),
    "linewidth": 0.8,
}
ZERO: style.Drawn = {
    "color": "0.6",
    "linewidth": 0.8,
    "zorder": 1,
}
INTERVALS: style.Handles = {
    "95 %: who is ahead": {},
    "90 %: is it small enough": SIZE,
    "smaller than the margin": MARGIN,
}


@style.figure_style()
def answer_figure(
    answers: Sequence[TaskAnswer],
) -> style.NamedFigure | None:
    """Return one row per data set with an answer, each on an axis of its own.

    None without answers.
    """
    compared = [answer for answer in answers if answer.comparison is not None]
    if not compared:
        return None
    compared.sort(key=lambda answer: answer.plan.scale != "paper")  # as README's table has them
    message = answer_sentence(answers)
    figure, grid = style.panels(
        compared,
        0.55,
        message,
        across=1,
    )
    for answer, axes in grid:
        _draw_answer(axes, answer)
    _, first = grid[0]
    first.set_title("◄ LayerNorm better", loc="left")
    first.set_title("AdaNorm better ►", loc="right")
    style.legend_below(figure, {**INTERVALS, "the paper's lead": style.PAPER})
    seeds = listed([f"{answer.seeds} ({title(answer.task)})" for answer in compared])
    caption = (
        f"AdaNorm's lead over LayerNorm, in the unit of each score, over {seeds} shared seeds."
    )
    return style.NamedFigure(
        "answer",
        caption,
        figure,
    )


def _draw_answer(axes: Axes, answer: TaskAnswer) -> None:
    comparison = answer.comparison
    assert comparison is not None, "only answers with a comparison are drawn"
    margin = comparison.margin
    color = ANSWERS[comparison.answer]
    axes.axvspan(
        -margin,
        margin,
        zorder=0,
        **MARGIN,
    )
    axes.axvline(0, **ZERO)
    y = [0, 0]
    axes.plot(
        comparison.interval,
        y,
        color=color,
    )
    axes.plot(
        comparison.margin_interval,
        y,
        color=color,
        **SIZE,
    )
    axes.plot(
        comparison.gap,
        0,
        marker="o",
        color=color,
        markersize=5,
    )
    drawn = [*comparison.interval, margin]
    if comparison.paper is not None:
        axes.plot(
            comparison.paper.value,
            0,
            **style.PAPER,
        )
        drawn.append(comparison.paper.value)
    reach = 1.1 * max(map(abs, drawn))
    axes.set(xlim=(-reach, reach), ylim=(-1, 1))
    metric = task_metric(answer.task).with_unit
    label = f"{title(answer.task)}, {metric}\n{SIZES[answer.plan.scale]}"
    axes.set_yticks([0], [label])
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:+g}" if x else "0")
    text: str = comparison.answer
    if comparison.papers_gap == "excluded":
        text += "\nthe paper's excluded"
    axes.text(
        1.02,
        0,
        text,
        transform=axes.get_yaxis_transform(),
        va="center",
    )


def _by_look(claim: Claim, evidence: Evidence) -> list[Comparison]:
    """Return the comparisons of a claim's norms, one for each look at their shared seeds."""
    better, worse = claim.norms(evidence.plan.task)
    seeds = evidence.variance.shared(worse, better)
    comparisons = {}
    for look in range(2, len(seeds) + 1):
        if evidence.plan.seeds_read(look) != look:
            continue
        first = seeds[:look]
        read = evidence.of_seeds({better: first, worse: first})
        comparison = pair(read, better, worse).comparison
        if comparison:
            comparisons[comparison.seeds] = comparison
    return list(comparisons.values())


@style.figure_style()
def evidence_accrual(name: str, claim: Claim, runs: str | None) -> style.NamedFigure | None:
    """Return effect and interval over seeds, one panel per task.

    None if none has two seeds.
    """
    evidence = claim_evidence(claim, "small", runs)
    by_task = {task: _by_look(claim, records) for task, records in evidence.items()}
    by_task = {task: looks for task, looks in by_task.items() if looks}
    if not by_task:
        return None
    better, worse = map(title, claim.norms(next(iter(by_task))))
    parts = []
    for answer in ANSWERS:
        tasks = [title(task) for task, looks in by_task.items() if looks[-1].answer == answer]
        if tasks:
            parts.append(f"{answer} on {listed(tasks)}")
    message = f"{better} beside {worse}: {'; '.join(parts)}"
    figure, grid = style.panels(
        by_task.items(),
        1.75,
        message,
    )
    for (task, looks), axes in grid:
        _draw_looks(axes, looks)
        axes.set(
            title=f"{title(task)}\nscale {evidence[task].plan.scale}",
            ylabel=f"lead, {task_metric(task).with_unit}",
        )
    comparisons = [*chain.from_iterable(by_task.values())]
    answers = {comparison.answer for comparison in comparisons}
    handles: style.Handles = {}
    for answer, color in ANSWERS.items():
        if answer in answers:
            handles[answer] = {"color": color, **DOT}
    handles |= INTERVALS
    if any(comparison.paper for comparison in comparisons):
        handles["the paper's lead"] = PAPER_LINE
    style.legend_below(figure, handles)
    caption = (
        f"Lead of {better} over {worse} at each look of the plan that reads a data set; an interval"
        " longer than its panel is cut off."
    )
    return style.NamedFigure(name, caption, figure)


def _draw_looks(axes: Axes, comparisons: Sequence[Comparison]) -> None:
    drawn = []
    for comparison in comparisons:
        color = ANSWERS[comparison.answer]
        x = [comparison.seeds] * 2
        axes.plot(x, comparison.interval, color=color)
        axes.plot(
            x,
            comparison.margin_interval,
            color=color,
            **SIZE,
        )
        axes.plot(
            comparison.seeds,
            comparison.gap,
            color=color,
            **DOT,
        )
        drawn.append(comparison.gap)
        if comparison.paper is not None:
            axes.axhline(comparison.paper.value, **PAPER_LINE)
            drawn.append(comparison.paper.value)
    last = comparisons[-1]
    # The first looks beyond the plan have intervals ten times as long as the last, which counts.
    drawn += last.interval
    limit = 1.1 * max(2 * last.margin, *map(abs, drawn))
    most = max(4, last.seeds)
    axes.axhspan(
        -last.margin,
        last.margin,
        zorder=0,
        **MARGIN,
    )
    axes.axhline(0, **ZERO)
    axes.set(
        xlim=(1.5, most + 0.5),
        ylim=(-limit, limit),
        xlabel="shared seeds",
    )
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
