"""The invariances of norms as a figure: a line a norm, a column a change, its size as a shade."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence

from adanorm.analyses.cell import analysis_results, text
from adanorm.analyses.spec import Analysis, AnalysisRecord
from adanorm.config.titles import title
from adanorm.reporting.figures.style import WIDTH, NamedFigure, figure_style

SMALLEST = 1e-17  # differences below it are shaded alike


def invariances(
    name: str, analysis: Analysis, task: str, cells: Mapping[str, Sequence[AnalysisRecord]]
) -> NamedFigure | None:
    """Return yes or no for each norm and change, and by how much; None where no record has ended."""
    found = {norm: ended[0].summary for norm, cell in cells.items() if (ended := analysis_results(cell))}
    if not found:
        return None
    sizes = [
        [math.log10(max(SMALLEST, values[quantity.name])) for quantity in analysis.shown]
        for values in found.values()
    ]
    with figure_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(WIDTH * 1.7, 1.25 + 0.2 * len(found)))
        axes = figure.subplots()
        image = axes.imshow(sizes, cmap="Greys", vmin=-17, vmax=3, aspect="auto")
        for height, norm in enumerate(found):
            for column, quantity in enumerate(analysis.shown):
                said = text(cells[norm], quantity)
                color = "white" if said == "no" else "black"
                axes.text(column, height, said, ha="center", va="center", color=color, fontsize=7)
        labels = [
            textwrap.fill(quantity.label, 10, break_on_hyphens=False, break_long_words=False)
            for quantity in analysis.shown
        ]
        axes.set_xticks(range(len(labels)), labels, fontsize=6)
        axes.set_yticks(range(len(found)), [title(norm) for norm in found])
        axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        bar = figure.colorbar(
            image, ax=axes, label="largest change, log₁₀", shrink=0.9, ticks=[-15, -10, -5, 0]
        )
        bar.outline.set_linewidth(0)
    return NamedFigure(name, f"{analysis.title}. {analysis.caption}", figure)
