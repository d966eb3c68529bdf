"""A claim on its tasks: the effects with their intervals, and how they came about seed by seed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from adanorm.config.titles import quantity_title, task_metric, title
from adanorm.reporting.figures.style import NamedFigure, figure_style, legend_below, panels
from adanorm.verdicts.cell import Evidence
from adanorm.verdicts.claims import claimed_pair
from adanorm.verdicts.pair import Pair
from adanorm.verdicts.preregistration import Claim, preregistration

ANSWERS = {"better": "#0072B2", "worse": "#D55E00", "equivalent": "#009E73", "open": "0.35"}
MARGIN: dict[str, Any] = {"color": "#F0E442", "alpha": 0.35, "linewidth": 0}
SEED: dict[str, Any] = {
    "color": "0.45",
    "marker": "o",
    "markersize": 2,
    "markeredgewidth": 0,
    "linestyle": "",
}
PAPER: dict[str, Any] = {
    "color": "black", "marker": "D", "markersize": 4.5, "markerfacecolor": "none", "linestyle": "",
}  # fmt: skip
PAPER_LINE: dict[str, Any] = {"color": "black", "dashes": (2, 1.5), "linewidth": 0.8}
LINEAR = 4.0  # margins on either side of nil; beyond them the axis is logarithmic


@figure_style()
def claim_effects(name: str, claim: Claim, pairs: Mapping[str, Sequence[Pair]]) -> NamedFigure | None:
    """Return a claim's effects in margins: one panel per scale, one row per task; None without runs."""
    scales = {scale: of_scale for scale, of_scale in pairs.items() if of_scale}
    if not scales:
        return None
    rows = [len(of_scale) for of_scale in scales.values()]
    height = 0.75 + sum(0.55 + 0.3 * count for count in rows)
    figure, grid = panels(len(rows), 1, height, gridspec_kw={"height_ratios": rows})
    for axes, (scale, of_scale) in zip(grid, scales.items(), strict=True):
        margins = [_margin(claim, pair) for pair in of_scale]
        for row, (pair, margin) in enumerate(zip(of_scale, margins, strict=True)):
            _draw_effect(axes, row, pair, margin)
        _label_effects(axes, scale, of_scale, margins)
    grid[-1].set_xlabel("effect in units of the margin")
    handles: dict[str, Artist] = {
        "effect, 95 % interval": Line2D([], [], color="0.35", marker="o"),
        "interval for the margin": Line2D([], [], color="0.35", linewidth=2.6),
        "seed": Line2D([], [], **SEED),
    }
    if any(pair.comparison and pair.comparison.paper for of_scale in scales.values() for pair in of_scale):
        handles["the paper's gap"] = Line2D([], [], **PAPER)
    handles["within the margin"] = Patch(**MARGIN)
    legend_below(figure, handles, handlelength=1.6)
    return NamedFigure(name, _effects_caption(claim, scales), figure)


def _draw_effect(axes: Axes, row: int, pair: Pair, margin: float) -> None:
    """Draw a task's row: the effect above its seeds, and the answer to the right."""
    comparison = pair.comparison
    decided = comparison is not None or pair.divergence_p is not None
    answer = pair.answer if decided else re.split("[:,]", pair.remark)[0]  # such as: did not learn
    axes.text(1.02, row, answer, transform=axes.get_yaxis_transform(), va="center", fontsize=7)
    axes.scatter([gap / margin for gap in pair.gaps], [row + 0.28] * len(pair.gaps), s=4, color="0.45", lw=0)
    if comparison is None:
        return
    color = ANSWERS.get(pair.answer, "0.35")
    axes.plot([x / margin for x in comparison.interval], [row, row], color=color)
    axes.plot([x / margin for x in comparison.margin_interval], [row, row], color=color, linewidth=2.6)
    axes.plot(comparison.gap / margin, row, marker="o", color=color)
    if comparison.paper is not None:
        axes.plot(comparison.paper.value / margin, row, **PAPER)


def _margin(claim: Claim, pair: Pair) -> float:
    margin = preregistration().margin(pair.task, claim.quantity)
    assert margin is not None, "checked with the file"
    return margin


def _label_effects(axes: Axes, scale: str, pairs: Sequence[Pair], margins: Sequence[float]) -> None:
    names = [f"{title(pair.task)} ±{margin:g}" for pair, margin in zip(pairs, margins, strict=True)]
    axes.axvspan(-1, 1, zorder=0, **MARGIN)
    axes.axvline(0, color="0.6", linewidth=0.8, zorder=1)
    axes.set_title(f"{scale} scale", fontweight="bold")
    axes.set_yticks(range(len(pairs)), names)
    axes.set_ylim(len(pairs) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    reach = max(
        (x for pair, margin in zip(pairs, margins, strict=True) for x in _extent(pair, margin)), default=1.0
    )
    if reach > 2 * LINEAR:
        axes.set_xscale("symlog", linthresh=LINEAR)
        axes.set_xticks([-16, -4, 0, 4, 16] if reach < 40 else [-64, -16, -4, 0, 4, 16, 64], minor=False)
        axes.minorticks_off()
    else:
        axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter("{x:g}")


def _extent(pair: Pair, margin: float) -> list[float]:
    """Return how far from nil all that is drawn of a task lies, in margins."""
    comparison = pair.comparison
    drawn = [*pair.gaps, *(comparison.interval if comparison else ())]
    if comparison and comparison.paper:
        drawn.append(comparison.paper.value)
    return [abs(x) / margin for x in drawn]


def _effects_caption(claim: Claim, scales: Mapping[str, Sequence[Pair]]) -> str:
    quantity = "" if claim.quantity == "test" else f", by {quantity_title(claim.quantity)}"
    better, worse = (title(norm) for norm in claim.norms(next(iter(scales.values()))[0].task))
    sentences = [
        f"{claim.text} Lead of {better} over {worse}{quantity}, divided by the task's margin (next to its"
        " name). Dot and thin line: the mean over shared seeds with the interval that tells better from worse"
        " (95 %); thick line: the one that lies within the margin where the two are equivalent (90 %);"
        " small dots: seeds; right: the answer.",
    ]
    if "paper" in scales:
        sentences.append("The paper's gap is drawn at the paper's scale, where it has one.")
    alone = {
        title(pair.task): pair.remark
        for pairs in scales.values()
        for pair in pairs
        if pair.comparison is None and pair.remark
    }
    if alone:
        remarks = "; ".join(f"{task}: {remark}" for task, remark in alone.items())
        sentences.append(f"Without an interval: {remarks}.")
    return " ".join(sentences)


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
