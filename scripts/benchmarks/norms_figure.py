"""The figure of the norms' cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from adanorm.config.paths import PROJECT

SIDES = {"ours": "as used", "to_eager": "eager", "to_authors": "as published"}


def draw(rows: Sequence[dict[str, Any]]) -> None:
    """Write results/bench/norms.svg: a panel a shape, forward and backward as times LayerNorm's."""
    cases = list(dict.fromkeys(_case(row) for row in rows))
    figure = Figure(figsize=(5 * len(cases), 3.8), layout="constrained")
    panels = figure.subplots(1, len(cases), sharey=True, squeeze=False)[0]
    for panel, case in zip(panels, cases, strict=True):
        of_case = [row for row in rows if _case(row) == case]
        for place, (side, label) in enumerate(SIDES.items()):
            bars = {i: row for i, row in enumerate(of_case) if side == "ours" or side in row}
            heights = [row["to_layernorm"] / (1 if side == "ours" else row[side]) for row in bars.values()]
            panel.bar([i + 0.27 * (place - 1) for i in bars], heights, 0.25, label=label)
        panel.set_xticks(
            range(len(of_case)), [row["norm"] for row in of_case], rotation=60, ha="right", fontsize=8
        )
        panel.axhline(1, color="black", linewidth=0.8)
        panel.set_yscale("log")
        panel.set_title(case, fontsize=9)
    panels[0].set_ylabel("time : torch's LayerNorm")
    panels[0].legend(fontsize=8)
    figure.savefig(PROJECT / "results" / "bench" / "norms.svg", metadata={"Date": None})


def _case(row: dict[str, Any]) -> str:
    return f"{row['device']}\n({row['rows']}, {row['features']}) {row['dtype']}"
