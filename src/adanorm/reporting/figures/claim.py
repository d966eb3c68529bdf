"""A claim on each of its tasks: effect, interval, margin, the paper's gap, and every seed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from adanorm.config.titles import quantity_title, title
from adanorm.reporting.figures.style import WIDTH, NamedFigure, figure_style
from adanorm.verdicts.pair import Pair
from adanorm.verdicts.preregistration import Claim, preregistration

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

ANSWERS = {"better": "#0072B2", "worse": "#D55E00", "equivalent": "#009E73", "open": "0.35"}
MARGIN: dict[str, Any] = {"color": "#F0E442", "alpha": 0.35, "linewidth": 0}
PAPER = "the paper's gap"
LEGEND: dict[str, dict[str, Any]] = {
    "effect, 95 % interval": {"color": "0.35", "marker": "o"},
    "seed": {"color": "0.45", "marker": "o", "markersize": 2, "markeredgewidth": 0, "linestyle": ""},
    PAPER: {
        "color": "black", "marker": "D", "markersize": 4.5, "markerfacecolor": "none", "linestyle": "",
    },
}  # fmt: skip
LINEAR = 4.0  # margins on either side of nil; beyond them the axis is logarithmic


def claim_effects(name: str, claim: Claim, found: Mapping[str, Sequence[Pair]]) -> NamedFigure | None:
    """Return a claim's effects in margins, a panel a scale and a row a task; None without runs."""
    scales = {scale: pairs for scale, pairs in found.items() if pairs}
    if not scales:
        return None
    rows = [len(pairs) for pairs in scales.values()]
    with figure_style():
        from matplotlib.figure import Figure
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        figure = Figure(figsize=(WIDTH, 0.75 + sum(0.55 + 0.3 * count for count in rows)))
        panels = figure.subplots(len(rows), squeeze=False, gridspec_kw={"height_ratios": rows})[:, 0]
        for axes, (scale, pairs) in zip(panels, scales.items(), strict=True):
            for height, pair in enumerate(pairs):
                _draw(axes, height, pair, _margin(claim, pair))
            _label(axes, scale, [(pair, _margin(claim, pair)) for pair in pairs])
        panels[-1].set_xlabel("effect in units of the margin")
        has_paper = any(
            pair.comparison and pair.comparison.paper for some in scales.values() for pair in some
        )
        needs = [text for text in LEGEND if has_paper or text != PAPER]
        handles: list[Artist] = [Line2D([], [], label=text, **LEGEND[text]) for text in needs]
        handles.append(Patch(label="within the margin", **MARGIN))
        figure.legend(handles=handles, loc="outside lower center", ncols=2, handlelength=1.6)
    return NamedFigure(name, _caption(claim, scales), figure)


def _draw(axes: Axes, height: int, pair: Pair, margin: float) -> None:
    """Draw a task's row: above the seeds its effect, with what is answered to the right of it."""
    read = pair.comparison
    decided = read is not None or pair.divergence_p is not None
    answer = pair.answer if decided else re.split("[:,]", pair.remark)[0]  # such as: did not learn
    axes.text(1.02, height, answer, transform=axes.get_yaxis_transform(), va="center", fontsize=7)
    dots = [gap / margin for gap in pair.gaps]
    axes.scatter(dots, [height + 0.28] * len(dots), s=4, color="0.45", linewidths=0)
    if read is None:
        return
    color = ANSWERS.get(pair.answer, "0.35")
    axes.plot([x / margin for x in read.interval], [height, height], color=color)
    axes.plot(read.gap / margin, height, marker="o", color=color)
    if read.paper is not None:
        axes.plot(read.paper.value / margin, height, **LEGEND[PAPER])


def _margin(claim: Claim, pair: Pair) -> float:
    margin = preregistration().margin(pair.task, claim.quantity)
    assert margin is not None, "checked with the file"
    return margin


def _label(axes: Axes, scale: str, pairs: Sequence[tuple[Pair, float]]) -> None:
    from matplotlib.ticker import MaxNLocator

    names = [f"{title(pair.task)} ±{margin:g}" for pair, margin in pairs]
    axes.axvspan(-1, 1, zorder=0, **MARGIN)
    axes.axvline(0, color="0.6", linewidth=0.8, zorder=1)
    axes.set_title(f"{scale} scale", fontweight="bold")
    axes.set_yticks(range(len(pairs)), names)
    axes.set_ylim(len(pairs) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    reach = max((abs(x) for pair, margin in pairs for x in _extent(pair, margin)), default=1.0)
    if reach > 2 * LINEAR:
        axes.set_xscale("symlog", linthresh=LINEAR)
        axes.set_xticks([-16, -4, 0, 4, 16] if reach < 40 else [-64, -16, -4, 0, 4, 16, 64], minor=False)
        axes.minorticks_off()
    else:
        axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter("{x:g}")


def _extent(pair: Pair, margin: float) -> list[float]:
    """Return all that is drawn of a task, in margins."""
    read = pair.comparison
    drawn = [
        *pair.gaps,
        *(read.interval if read else ()),
        *([read.paper.value] if read and read.paper else ()),
    ]
    return [x / margin for x in drawn]


def _caption(claim: Claim, scales: Mapping[str, Sequence[Pair]]) -> str:
    quantity = "" if claim.quantity == "test" else f", by {quantity_title(claim.quantity)}"
    sentences = [
        f"{claim.text} By how much the norm that is claimed to be better is better{quantity}, in units of the"
        " smallest difference that matters, which stands beside the task: the mean over shared seeds with the"
        " interval that a verdict reads (95 %), below it each seed, and what is answered.",
        "The paper's gap is drawn at the paper's scale, where it has one." if "paper" in scales else "",
    ]
    alone = {
        title(pair.task): pair.remark
        for pairs in scales.values()
        for pair in pairs
        if pair.comparison is None and pair.remark
    }
    said = "; ".join(f"{task}: {remark}" for task, remark in alone.items())
    return " ".join([*(s for s in sentences if s), *([f"Without an interval: {said}."] if said else [])])
