"""The figure of what norms cost, drawn from the benchmark's CSV."""

from __future__ import annotations

import csv
from pathlib import Path

from adanorm.config.titles import title
from adanorm.files import write_whole
from adanorm.reporting.figures.style import Handle, NamedFigure, figure_style, legend_below, panels, svg

COLORS = {"": "#0072B2", "to_eager": "#56B4E9", "to_authors": "#999999"}
SIDES = {"": "as used", "to_eager": "eager", "to_authors": "as published"}


@figure_style()
def draw(costs: Path) -> None:
    """Write an SVG beside norms.csv: one panel per shape, in multiples of LayerNorm's time."""
    rows = list(csv.DictReader(costs.read_text().splitlines()))
    cases = list(dict.fromkeys(map(_case, rows)))
    name = "adanorm" if any(row["norm"] == "adanorm" for row in rows) else rows[0]["norm"]
    times = [float(row["to_layernorm"]) for row in rows if row["norm"] == name]
    message = f"{title(name)} takes {min(times):.2f} to {max(times):.2f} times as long as torch's LayerNorm"
    handles: dict[str, Handle] = {}
    figure, grid = panels(len(cases), 2.7, message, across=2, sharey=True)
    for panel, case in zip(grid, cases, strict=True):
        of_case = [row for row in rows if _case(row) == case]
        for shift, (side, label) in zip((-0.27, 0, 0.27), SIDES.items(), strict=True):
            heights = {
                at + shift: float(row["to_layernorm"]) / (float(row[side]) if side else 1)
                for at, row in enumerate(of_case)
                if not side or row.get(side)
            }
            if heights:
                handles[label] = panel.bar([*heights], [*heights.values()], 0.25, color=COLORS[side])[0]
        panel.set_xticks(range(len(of_case)), [row["norm"] for row in of_case], rotation=90, fontsize=6)
        panel.axhline(1, color="black", linewidth=0.8)
        panel.set(yscale="log", title=case, ylabel="time : torch's LayerNorm")
        panel.yaxis.set_major_formatter("{x:g}")
    legend_below(figure, handles)
    write_whole(costs.with_suffix(".svg"), svg(NamedFigure("norms", message, figure)).encode())


def _case(row: dict[str, str]) -> str:
    threads = f"{row['threads']} thread{'' if row['threads'] == '1' else 's'}"
    return f"{row['device']}, {threads}\n({row['rows']}, {row['features']}) {row['dtype']}"
