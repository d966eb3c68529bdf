"""The invariances of norms as a figure: one row per norm, one column per change, its size as a shade."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from adanorm.analyses.cell import analysis_results, text
from adanorm.analyses.spec import Analysis, AnalysisRecord
from adanorm.config.titles import title
from adanorm.reporting.figures.style import WIDTH, NamedFigure, figure_style

SMALLEST = 1e-17  # differences below it are shaded alike


@figure_style()
def invariances(
    name: str, analysis: Analysis, task: str, cells: Mapping[str, Sequence[AnalysisRecord]]
) -> NamedFigure | None:
    """Return yes or no for each norm and change, and by how much; None where no record has ended."""
    summaries = {norm: ended[0].summary for norm, cell in cells.items() if (ended := analysis_results(cell))}
    if not summaries:
        return None
    sizes = [
        [math.log10(max(SMALLEST, summary[quantity.name])) for quantity in analysis.shown]
        for summary in summaries.values()
    ]
    figure = Figure(figsize=(WIDTH * 1.7, 1.25 + 0.2 * len(summaries)))
    axes = figure.subplots()
    image = axes.imshow(sizes, cmap="Greys", vmin=-17, vmax=3, aspect="auto")
    for row, norm in enumerate(summaries):
        for column, quantity in enumerate(analysis.shown):
            answer = text(cells[norm], quantity)
            color = "white" if answer == "no" else "black"
            axes.text(column, row, answer, ha="center", va="center", color=color, fontsize=7)
    labels = [
        textwrap.fill(quantity.label, 10, break_on_hyphens=False, break_long_words=False)
        for quantity in analysis.shown
    ]
    axes.set_xticks(range(len(labels)), labels, fontsize=6)
    axes.set_yticks(range(len(summaries)), [title(norm) for norm in summaries])
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=axes, label="largest change, log₁₀", shrink=0.9, ticks=[-15, -10, -5, 0])
    bar.outline.set_linewidth(0)
    return NamedFigure(name, f"{analysis.title}. {analysis.caption}", figure)
