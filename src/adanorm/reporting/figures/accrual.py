"""The evidence on two norms as seeds accrue: the effect and its interval after each of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from adanorm.config.titles import task_metric, title
from adanorm.reporting.figures.claim import ANSWERS, MARGIN, PAPER
from adanorm.reporting.figures.style import WIDTH, NamedFigure, figure_style
from adanorm.verdicts.claims import claimed_pair
from adanorm.verdicts.evidence import Evidence
from adanorm.verdicts.pair import Pair
from adanorm.verdicts.preregistration import Claim, preregistration

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAPER_LINE: dict[str, Any] = {"color": "black", "dashes": (2, 1.5), "linewidth": 0.8}


def evidence_by_seeds(claim: Claim, found: Evidence) -> list[Pair]:
    """Return what was on record of a claim's norms on a task after two, three, ... of their shared seeds."""
    better, worse = claim.norms(found.task)
    seeds = found.variance.shared(worse, better)[: preregistration().stopping.most]
    after = []
    for count in range(2, len(seeds) + 1):
        first = seeds[:count]
        read = claimed_pair(claim, found.of_seeds({better: first, worse: first}))
        if read is not None and read.comparison is not None:
            after.append(read)
    return after


def evidence_accrual(name: str, claim: Claim, found: Mapping[str, Evidence]) -> NamedFigure | None:
    """Return effect and interval over seeds, a panel a task; None where no task has two shared seeds."""
    panels = {task: after for task, read in found.items() if (after := evidence_by_seeds(claim, read))}
    if not panels:
        return None
    columns = min(2, len(panels))
    rows = math.ceil(len(panels) / columns)
    scale = next(iter(found.values())).scale
    with figure_style():
        from matplotlib.figure import Figure
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        figure = Figure(figsize=(WIDTH, 0.95 + 1.35 * rows))
        better, worse = map(title, claim.norms(next(iter(panels))))
        about = f"{better}'s lead over {worse}\nas seeds accrue, {scale} scale"
        figure.suptitle(about, fontsize=8, fontweight="bold")
        grid = figure.subplots(rows, columns, squeeze=False)
        for (task, after), axes in zip(panels.items(), grid.flat, strict=False):
            _draw(axes, task, after)
        for axes in grid.flat[len(panels) :]:
            axes.set_axis_off()
        for axes in grid[:, 0]:
            axes.set_ylabel("lead")
        looks = [pair for after in panels.values() for pair in after]
        answers = {pair.answer for pair in looks}
        handles: list[Line2D | Patch] = [
            Line2D([], [], label=f"{answer}, interval", color=color, marker="o")
            for answer, color in ANSWERS.items()
            if answer in answers
        ]
        handles += [Patch(label="within the margin", **MARGIN)]
        if any(pair.comparison and pair.comparison.paper for pair in looks):
            handles += [Line2D([], [], label=PAPER, **PAPER_LINE)]
        figure.legend(handles=handles, loc="outside lower center", ncols=2, handlelength=1.6)
    return NamedFigure(name, _caption(claim, scale, panels), figure)


def _draw(axes: Axes, task: str, after: Sequence[Pair]) -> None:
    from matplotlib.ticker import MaxNLocator

    margin, shown, last = 0.0, 0.0, (0.0, 0.0)
    for pair in after:
        read = pair.comparison
        assert read is not None, "only such are drawn"
        color, margin = ANSWERS.get(pair.answer, "0.35"), read.margin
        axes.plot([read.seeds] * 2, list(read.interval), color=color)
        axes.plot(read.seeds, read.gap, marker="o", color=color)
        shown, last = max(shown, abs(read.gap)), read.interval
        if read.paper is not None:
            axes.axhline(read.paper.value, **PAPER_LINE)
            shown = max(shown, abs(read.paper.value))
    # The first looks beyond the plan have intervals ten times as long as the last, which is what counts.
    limit = 1.1 * max(shown, 2 * margin, *map(abs, last))
    axes.set_ylim(-limit, limit)
    axes.axhspan(-margin, margin, zorder=0, **MARGIN)
    axes.axhline(0, color="0.6", linewidth=0.8, zorder=1)
    axes.set_title(f"{title(task)} ({task_metric(task).label})")
    axes.set_xlim(1.5, max(4, len(after) + 1) + 0.5)
    axes.set_xlabel("shared seeds")
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))


def _caption(claim: Claim, scale: str, panels: Mapping[str, Sequence[Pair]]) -> str:
    better, worse = claim.norms(next(iter(panels)))
    plan = preregistration().stopping
    ended = ", ".join(f"{title(task)} {after[-1].answer}" for task, after in panels.items())
    return (
        f"By how much {title(better)} is better than {title(worse)} at {scale} scale after each seed that"
        " both have, with the interval that a verdict reads: up to"
        f" {plan.planned} seeds that of a fixed plan, beyond them that of a look after every seed, which is"
        " wider by as much as looking often takes; an interval longer than the panel is cut off."
        f" Now: {ended}."
    )
