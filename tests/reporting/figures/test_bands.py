"""Figures of ranges, drawn from records written here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adanorm.analyses.spec import Analysis, AnalysisRecord, analysis_grid, load_analysis
from adanorm.reporting.figures.over_updates import bands
from tests.reporting.records import record_analysis


def cells(
    name: str, rows: dict[str, list[list[dict[str, Any]]]], runs: Path
) -> tuple[Analysis, dict[str, list[AnalysisRecord]]]:
    """Records of an analysis of MNIST: for each norm the observations of each seed."""
    seeds = max(map(len, rows.values()))
    given = {"tasks": "[mnist]", "norms": f"[{','.join(rows)}]", "seeds": str(list(range(1, seeds + 1)))}
    analysis = load_analysis(name, given)
    grid = analysis_grid(analysis, runs=str(runs))
    for norm, of_seeds in rows.items():
        for record, observed in zip(grid[norm, "mnist"], of_seeds, strict=False):
            record_analysis(record)
            lines = [
                json.dumps({"update": 10 * (i + 1), "epoch": 0, "loss": 1.0, "values": values})
                for i, values in enumerate(observed)
            ]
            (record.folder() / "rows.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return analysis, {norm: grid[norm, "mnist"] for norm in rows}


def edges(axes: Any) -> tuple[list[float], list[float]]:
    """Return the lower and the upper edge of the only band of a panel."""
    (band,) = axes.collections
    points = band.get_paths()[0].vertices
    found = [sorted({float(y) for x, y in points if x == at}) for at in np.unique(points[:, 0])]
    return [values[0] for values in found], [values[-1] for values in found]


def test_a_quantity_with_ends_is_the_band_between_them_averaged_over_seeds(tmp_path: Path) -> None:
    def row(low: float, high: float) -> dict[str, Any]:
        ends = {"loss": high - low, "loss_low": low, "loss_high": high}
        return {"": {**ends, "gradient": 1.0, "gradient_low": 1.0, "gradient_high": 2.0, "smoothness": 5.0}}

    seeds = [[row(1.0, 2.0), row(2.0, 5.0)], [row(3.0, 4.0), row(2.0, 7.0)]]
    analysis, found = cells("landscape", {"layernorm": seeds}, tmp_path)
    drawing = bands("name", analysis, "mnist", found)
    assert drawing is not None
    loss, _, smoothness = drawing.figure.axes
    assert edges(loss) == ([2.0, 2.0], [3.0, 6.0])
    assert [np.asarray(line.get_ydata()).tolist() for line in smoothness.lines] == [[5.0, 5.0]]
    assert loss.get_title() == "loss, range along g"


def test_of_another_quantity_the_band_reaches_over_the_places(tmp_path: Path) -> None:
    def row(*values: float) -> dict[str, Any]:
        return {
            f"layer.{i}": {"shift": value, "relative": value, "cosine": None}
            for i, value in enumerate(values)
        }

    analysis, found = cells("covariate-shift", {"none": [[row(1, 2, 6), row(2, 2, 2)]]}, tmp_path)
    drawing = bands("name", analysis, "mnist", found)
    assert drawing is not None
    assert [axes.get_title() for axes in drawing.figure.axes] == ["|G − G'|", "|G − G'| / |G|"]
    assert edges(drawing.figure.axes[0]) == ([1.0, 2.0], [6.0, 2.0])
    (line,) = drawing.figure.axes[0].lines
    assert np.asarray(line.get_ydata()).tolist() == pytest.approx([3.0, 2.0])
    assert np.asarray(line.get_xdata()).tolist() == [10, 20]


def test_without_records_there_is_no_figure(tmp_path: Path) -> None:
    analysis, found = cells("landscape", {"none": [], "layernorm": [[]]}, tmp_path)
    assert bands("name", analysis, "mnist", {"none": found["none"]}) is None
    assert bands("name", analysis, "mnist", found) is None, "ended before anything was observed"
