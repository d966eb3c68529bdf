"""The figure of what norms cost, drawn from the benchmark's CSV."""

from __future__ import annotations

import csv
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from adanorm.reporting.figures.style import STYLE

ACROSS = 3  # panels
SIDES = {"": "as used", "to_eager": "eager", "to_authors": "as published"}


def draw(costs: Path) -> None:
    """Write an SVG beside norms.csv: a panel a shape, forward and backward as multiples of LayerNorm's."""
    rows = list(csv.DictReader(costs.read_text().splitlines()))
    cases = list(dict.fromkeys(_case(row) for row in rows))
    # The same CSV gives the same bytes.
    with mpl.rc_context({"svg.hashsalt": STYLE["svg.hashsalt"]}):
        lines = -(-len(cases) // ACROSS)
        figure = Figure(figsize=(5 * min(len(cases), ACROSS), 3.8 * lines), layout="constrained")
        panels = figure.subplots(lines, min(len(cases), ACROSS), sharey=True, squeeze=False).flat
        for panel, case in zip(panels, cases, strict=False):
            of_case = [row for row in rows if _case(row) == case]
            for shift, (side, label) in zip((-0.27, 0, 0.27), SIDES.items(), strict=True):
                heights = {
                    i: float(row["to_layernorm"]) / (float(row[side]) if side else 1)
                    for i, row in enumerate(of_case)
                    if not side or row.get(side)
                }
                panel.bar([i + shift for i in heights], heights.values(), 0.25, label=label)
            panel.set_xticks(
                range(len(of_case)), [row["norm"] for row in of_case], rotation=60, ha="right", fontsize=8
            )
            panel.axhline(1, color="black", linewidth=0.8)
            panel.set_yscale("log")
            panel.set_title(case, fontsize=9)
        panels[0].set_ylabel("time : torch's LayerNorm")
        panels[0].legend(fontsize=8)
        figure.savefig(costs.with_suffix(".svg"), metadata={"Date": None})


def _case(row: dict[str, str]) -> str:
    return f"{row['device']}, {row['threads']} threads\n({row['rows']}, {row['features']}) {row['dtype']}"
