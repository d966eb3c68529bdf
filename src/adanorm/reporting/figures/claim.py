"""A claim on its tasks: how the effects and their intervals came about, seed by seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from adanorm.config.titles import task_metric, title
from adanorm.reporting.figures.style import NamedFigure, figure_style, legend_below, panels
from adanorm.verdicts.cell import Evidence
from adanorm.verdicts.claims import claimed_pair
from adanorm.verdicts.pair import Pair
from adanorm.verdicts.preregistration import Claim, preregistration

ANSWERS = {"better": "#0072B2", "worse": "#D55E00", "equivalent": "#009E73", "open": "0.35"}
MARGIN: dict[str, Any] = {"color": "#F0E442", "alpha": 0.35, "linewidth": 0}
PAPER: dict[str, Any] = {
    "color": "black", "marker": "D", "markersize": 4.5, "markerfacecolor": "none", "linestyle": "",
}  # fmt: skip
PAPER_LINE: dict[str, Any] = {"color": "black", "dashes": (2, 1.5), "linewidth": 0.8}


def evidence_by_seeds(claim: Claim, evidence: Evidence) -> list[Pair]:
    """Return the comparison of a claim's norms on a task after two, three, ... of their shared seeds."""
    better, worse = claim.norms(evidence.task)
    seeds = evidence.variance.shared(worse, better)[: preregistration().stopping.most]
    first = [seeds[:count] for count in range(2, len(seeds) + 1)]
    pairs = [claimed_pair(claim, evidence.of_seeds({better: some, worse: some})) for some in first]
    return [pair for pair in pairs if pair is not None and pair.comparison is not None]


@figure_style()
def evidence_accrual(name: str, claim: Claim, evidence: Mapping[str, Evidence]) -> NamedFigure | None:
    """Return effect and interval over seeds, one panel per task; None where no task has two shared seeds."""
    looks = {
        task: pairs for task, of_task in evidence.items() if (pairs := evidence_by_seeds(claim, of_task))
    }
    if not looks:
        return None
    columns = min(2, len(looks))
    scale = next(iter(evidence.values())).scale
    better, worse = map(title, claim.norms(next(iter(looks))))
    heading = f"{better}'s lead over {worse}\nas seeds accrue, {scale} scale"
    figure, grid = panels(len(looks), columns, 0.95 + 1.35 * -(-len(looks) // columns), heading=heading)
    for (task, pairs), axes in zip(looks.items(), grid, strict=True):
        _draw_looks(axes, task, pairs)
    for axes in grid[::columns]:
        axes.set_ylabel("lead")
    drawn = [pair for pairs in looks.values() for pair in pairs]
    answers = {pair.answer for pair in drawn}
    handles: dict[str, Artist] = {
        f"{answer}, interval": Line2D([], [], color=color, marker="o")
        for answer, color in ANSWERS.items()
        if answer in answers
    }
    handles["within the margin"] = Patch(**MARGIN)
    if any(pair.comparison and pair.comparison.paper for pair in drawn):
        handles["the paper's gap"] = Line2D([], [], **PAPER_LINE)
    legend_below(figure, handles, handlelength=1.6)
    plan = preregistration().stopping.planned
    ended = ", ".join(f"{title(task)} {pairs[-1].answer}" for task, pairs in looks.items())
    caption = (
        f"Lead of {better} over {worse} at {scale} scale after each seed that both have, with the 95 %"
        f" interval. Up to {plan} seeds it is that of a fixed plan; beyond them it is wider, because we check"
        f" after every seed. An interval longer than the panel is cut off. Now: {ended}."
    )
    return NamedFigure(name, caption, figure)


def _draw_looks(axes: Axes, task: str, pairs: Sequence[Pair]) -> None:
    margin, reach, last = 0.0, 0.0, (0.0, 0.0)
    for pair in pairs:
        comparison = pair.comparison
        assert comparison is not None, "only such are drawn"
        color, margin = ANSWERS.get(pair.answer, "0.35"), comparison.margin
        axes.plot([comparison.seeds] * 2, list(comparison.interval), color=color)
        axes.plot(comparison.seeds, comparison.gap, marker="o", color=color)
        reach, last = max(reach, abs(comparison.gap)), comparison.interval
        if comparison.paper is not None:
            axes.axhline(comparison.paper.value, **PAPER_LINE)
            reach = max(reach, abs(comparison.paper.value))
    # The first looks beyond the plan have intervals ten times as long as the last, which is what counts.
    limit = 1.1 * max(reach, 2 * margin, *map(abs, last))
    axes.set_ylim(-limit, limit)
    axes.axhspan(-margin, margin, zorder=0, **MARGIN)
    axes.axhline(0, color="0.6", linewidth=0.8, zorder=1)
    axes.set_title(f"{title(task)} ({task_metric(task).label})")
    axes.set_xlim(1.5, max(4, len(pairs) + 1) + 0.5)
    axes.set_xlabel("shared seeds")
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
