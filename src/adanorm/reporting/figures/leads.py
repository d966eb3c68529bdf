"""One norm's lead over another: on each data set, and over the number of seeds."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from adanorm.config.titles import METRICS, listed, task_metric, title
from adanorm.reporting.figures import style
from adanorm.reporting.tables.answers import SIZES
from adanorm.reporting.tables.summary import answer_sentence
from adanorm.stats.comparison import Comparison
from adanorm.verdicts.claims import TaskAnswer, claim_evidence
from adanorm.verdicts.evidence import Evidence
from adanorm.verdicts.pair import Pair, pair
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
INTERVALS: dict[str, style.Handle] = {
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
        len(compared),
        0.55,
        message,
        across=1,
    )
    for axes, answer in zip(
        grid,
        compared,
        strict=True,
    ):
        _draw_answer(axes, answer)
    grid[0].set_title("◄ LayerNorm better", loc="left")
    grid[0].set_title("AdaNorm better ►", loc="right")
    style.legend_below(figure, {**INTERVALS, "the paper's lead": style.PAPER})
    seeds = listed([f"{answer.seeds} ({title(answer.task)})" for answer in compared])
    caption = (
        f"AdaNorm's lead over LayerNorm, in the unit of each score, over {seeds} shared seeds."
    )
    return style.NamedFigure("answer", caption, figure)


def _draw_answer(axes: Axes, answer: TaskAnswer) -> None:
    comparison = answer.comparison
    assert comparison is not None, "only answers with a comparison are drawn"
    margin, color = comparison.margin, ANSWERS[comparison.answer]
    axes.axvspan(
        -margin,
        margin,
        zorder=0,
        **MARGIN,
    )
    axes.axvline(0, **ZERO)
    axes.plot(
        comparison.interval,
        [0, 0],
        color=color,
    )
    axes.plot(
        comparison.margin_interval,
        [0, 0],
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
    axes.set_yticks(
        [0],
        [f"{title(answer.task)}, {metric}\n{SIZES[answer.plan.scale]}"],
    )
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


def evidence_by_seeds(claim: Claim, evidence: Evidence) -> list[Pair]:
    """Return the comparisons of a claim's norms, one for each look at their shared seeds."""
    better, worse = claim.norms(evidence.plan.task)
    seeds = evidence.variance.shared(worse, better)
    pairs = {}
    for look in range(2, len(seeds) + 1):
        if evidence.plan.seeds_read(look) != look:
            continue
        first = seeds[:look]
        both = pair(
            evidence.of_seeds({better: first, worse: first}),
            better,
            worse,
        )
        if both.comparison:
            pairs[both.comparison.seeds] = both
    return list(pairs.values())


@style.figure_style()
def evidence_accrual(name: str, claim: Claim, runs: str | None) -> style.NamedFigure | None:
    """Return effect and interval over seeds, one panel per task.

    None if none has two seeds.
    """
    evidence = claim_evidence(claim, "small", runs)
    by_task = {task: evidence_by_seeds(claim, records) for task, records in evidence.items()}
    by_task = {task: pairs for task, pairs in by_task.items() if pairs}
    if not by_task:
        return None
    better, worse = map(title, claim.norms(next(iter(by_task))))
    parts = []
    for answer in ANSWERS:
        tasks = [title(task) for task, pairs in by_task.items() if pairs[-1].answer == answer]
        if tasks:
            parts.append(f"{answer} on {listed(tasks)}")
    message = f"{better} beside {worse}: {'; '.join(parts)}"
    figure, grid = style.panels(
        len(by_task),
        1.75,
        message,
    )
    answers, papers = set(), []
    for (task, pairs), axes in zip(
        by_task.items(),
        grid,
        strict=True,
    ):
        last = pairs[-1]
        metric = METRICS[last.sides[0].metric]
        _draw_looks(axes, pairs)
        axes.set(
            title=f"{title(task)}\nscale {last.plan.scale}",
            ylabel=f"lead, {metric.with_unit}",
        )
        answers |= {both.answer for both in pairs}
        papers += [both for both in pairs if both.comparison and both.comparison.paper]
    handles: dict[str, style.Handle] = {}
    for answer, color in ANSWERS.items():
        if answer in answers:
            handles[answer] = {"color": color, **DOT}
    handles |= INTERVALS
    if papers:
        handles["the paper's lead"] = PAPER_LINE
    style.legend_below(figure, handles)
    caption = (
        f"Lead of {better} over {worse} at each look of the plan that reads a data set; an interval"
        " longer than its panel is cut off."
    )
    return style.NamedFigure(name, caption, figure)


def _draw_looks(axes: Axes, pairs: Sequence[Pair]) -> None:
    comparisons: list[Comparison] = []
    reach = 0.0
    for both in pairs:
        comparison = both.comparison
        assert comparison is not None, "only pairs with a comparison are drawn"
        comparisons.append(comparison)
        color = ANSWERS.get(both.answer, "0.35")
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
        reach = max(reach, abs(comparison.gap))
        if comparison.paper is not None:
            axes.axhline(comparison.paper.value, **PAPER_LINE)
            reach = max(reach, abs(comparison.paper.value))
    last = comparisons[-1]
    # The first looks beyond the plan have intervals ten times as long as the last, which counts.
    limit = 1.1 * max(
        reach,
        2 * last.margin,
        *map(abs, last.interval),
    )
    most = max(4, *(comparison.seeds for comparison in comparisons))
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
