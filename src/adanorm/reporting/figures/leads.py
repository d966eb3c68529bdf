"""One norm's lead over another: on each data set, and over the number of seeds."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from adanorm.config.titles import task_metric, title
from adanorm.metrics.table import METRICS
from adanorm.reporting.figures import style
from adanorm.reporting.tables.claims import SIZES, headline
from adanorm.stats.comparison import Comparison
from adanorm.verdicts.cell import Evidence
from adanorm.verdicts.claims import TaskAnswer, claim_evidence
from adanorm.verdicts.pair import Pair, pair
from adanorm.verdicts.preregistration import Claim, preregistration
from adanorm.verdicts.sentences import listed

SIGNS = {"ahead": "#0072B2", "behind": "#D55E00", "not told apart": "0.35"}
ANSWERS = {"better": "#0072B2", "worse": "#D55E00", "equivalent": "#009E73", "open": "0.35"}
MARGIN: dict[str, Any] = {"color": "#F0E442", "alpha": 0.35, "linewidth": 0}
DOT: dict[str, Any] = {"marker": "o", "markerfacecolor": "white"}
SIZE: dict[str, Any] = {"linewidth": 2.6, "solid_capstyle": "butt"}
PAPER_LINE: dict[str, Any] = {"color": "black", "dashes": (2, 1.5), "linewidth": 0.8}
INTERVALS = {"interval of the sign": {}, "interval of the size": SIZE, "within the margin": MARGIN}


@style.figure_style()
def answer_figure(answers: Sequence[TaskAnswer]) -> style.NamedFigure | None:
    """Return one row per data set with an answer, each on an axis of its own; None without answers."""
    compared = [(one, one.comparison) for one in answers if one.comparison is not None]
    if not compared:
        return None
    message = headline(answers).partition(";")[0]
    figure, grid = style.panels(len(compared), 0.55, message, across=1)
    for axes, (one, comparison) in zip(grid, compared, strict=True):
        _draw_answer(axes, one, comparison)
    grid[0].set_title("◄ LayerNorm better", loc="left")
    grid[0].set_title("AdaNorm better ►", loc="right")
    style.legend_below(figure, {**INTERVALS, "the paper's lead": style.PAPER})
    seeds = listed([f"{one.seeds} ({title(one.task)})" for one, _ in compared])
    caption = (
        f"AdaNorm's lead over LayerNorm, in the unit of each score, over {seeds} shared seeds."
    )
    return style.NamedFigure("answer", caption, figure)


def _draw_answer(axes: Axes, one: TaskAnswer, comparison: Comparison) -> None:
    axes.axvspan(-comparison.margin, comparison.margin, zorder=0, **MARGIN)
    axes.axvline(0, color="0.6", linewidth=0.8, zorder=1)
    color = SIGNS[comparison.sign]
    for ends, look in ((comparison.interval, {}), (comparison.margin_interval, SIZE)):
        axes.plot(ends, [0, 0], color=color, **look)
    axes.plot(comparison.gap, 0, marker="o", color=color, markersize=5)
    drawn = [*comparison.interval, comparison.margin]
    if comparison.paper is not None:
        axes.plot(comparison.paper.value, 0, **style.PAPER)
        drawn.append(comparison.paper.value)
    reach = 1.1 * max(map(abs, drawn))
    axes.set(xlim=(-reach, reach), ylim=(-1, 1))
    axes.set_yticks(
        [0], [f"{title(one.task)}, {task_metric(one.task).with_unit}\n{SIZES[one.scale]}"]
    )
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:+g}" if x else "0")
    text = f"{comparison.sign}\n{comparison.size.replace('the margin', f'±{comparison.margin:g}')}"
    axes.text(1.02, 0, text, transform=axes.get_yaxis_transform(), va="center")


def evidence_by_seeds(claim: Claim, evidence: Evidence) -> list[Pair]:
    """Return the comparisons of a claim's norms, one for each look at their shared seeds."""
    better, worse = claim.norms(evidence.task)
    seeds = evidence.variance.shared(worse, better)[: preregistration().stopping.most]
    first = [seeds[:count] for count in range(2, len(seeds) + 1)]
    pairs = (
        pair(evidence.of_seeds({better: subset, worse: subset}), better, worse) for subset in first
    )
    return [*{both.comparison.seeds: both for both in pairs if both.comparison}.values()]


@style.figure_style()
def evidence_accrual(
    name: str, claim: Claim, scale: str, runs: str | None
) -> style.NamedFigure | None:
    """Return effect and interval over seeds, one panel per task; None if none has two seeds at this scale."""
    evidence = claim_evidence(claim, scale, runs)
    looks = {
        task: pairs for task, of in evidence.items() if (pairs := evidence_by_seeds(claim, of))
    }
    if all(pairs[-1].scale != scale for pairs in looks.values()):
        return None
    better, worse = map(title, claim.norms(next(iter(looks))))
    now = {task: pairs[-1].answer for task, pairs in looks.items()}
    tasks = {
        answer: [title(task) for task, one in now.items() if one == answer] for answer in ANSWERS
    }
    parts = "; ".join(
        f"{answer} on {listed(of_answer)}" for answer, of_answer in tasks.items() if of_answer
    )
    figure, grid = style.panels(len(looks), 1.75, f"{better} beside {worse}: {parts}")
    for (task, pairs), axes in zip(looks.items(), grid, strict=True):
        metric = METRICS[pairs[-1].sides[0].metric]
        _draw_looks(axes, pairs)
        axes.set(
            title=f"{title(task)}\n{SIZES[pairs[-1].scale]}", ylabel=f"lead, {metric.with_unit}"
        )
    drawn = [both for pairs in looks.values() for both in pairs]
    answers = {both.answer for both in drawn}
    handles: dict[str, style.Handle] = {
        a: {"color": ANSWERS[a], **DOT} for a in ANSWERS if a in answers
    }
    handles |= INTERVALS
    if any(both.comparison and both.comparison.paper for both in drawn):
        handles["the paper's lead"] = PAPER_LINE
    style.legend_below(figure, handles)
    when = "at each look of the plan that reads a data set; an interval"
    if scale == "paper":
        why = f"Intervals widen beyond {preregistration().stopping.planned} seeds"
        when = f"after each seed that both have. {why} because we check after every seed; one"
    caption = f"Lead of {better} over {worse} {when} longer than its panel is cut off."
    return style.NamedFigure(name, caption, figure)


def _draw_looks(axes: Axes, pairs: Sequence[Pair]) -> None:
    margin, reach, last, most = 0.0, 0.0, (0.0, 0.0), 4
    for both in pairs:
        comparison = both.comparison
        assert comparison is not None, "only pairs with a comparison are drawn"
        color, margin, at = (
            ANSWERS.get(both.answer, "0.35"),
            comparison.margin,
            [comparison.seeds] * 2,
        )
        for ends, look in ((comparison.interval, {}), (comparison.margin_interval, SIZE)):
            axes.plot(at, ends, color=color, **look)
        axes.plot(comparison.seeds, comparison.gap, color=color, **DOT)
        reach, last, most = (
            max(reach, abs(comparison.gap)),
            comparison.interval,
            max(most, comparison.seeds),
        )
        if comparison.paper is not None:
            axes.axhline(comparison.paper.value, **PAPER_LINE)
            reach = max(reach, abs(comparison.paper.value))
    # The first looks beyond the plan have intervals ten times as long as the last look, which
    # counts.
    limit = 1.1 * max(reach, 2 * margin, *map(abs, last))
    axes.axhspan(-margin, margin, zorder=0, **MARGIN)
    axes.axhline(0, color="0.6", linewidth=0.8, zorder=1)
    axes.set(xlim=(1.5, most + 0.5), ylim=(-limit, limit), xlabel="shared seeds")
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
