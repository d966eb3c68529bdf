"""Tables and figures of analyses, from records made by hand."""

import json
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

from adanorm.analyses.spec import (
    Analysis,
    AnalysisGrid,
    AnalysisRecord,
    analysis_grid,
    load_analysis,
    number,
)
from adanorm.reporting.figures.over_updates import over_updates
from adanorm.reporting.tables.analysis import (
    analysis_csv,
    analysis_markdown,
)
from tests.reporting.figures.test_figures import corners, legend, xs, ys
from tests.reporting.records import put, record_analysis, rows_of
from tests.verdicts import not_none


def write_rows(record: AnalysisRecord, by_update: dict[int, Any]) -> None:
    rows = [json.dumps({"update": at, "values": values}) for at, values in by_update.items()]
    put(
        record.folder(),
        "rows.jsonl",
        "".join(f"{row}\n" for row in rows).encode(),
    )


def write(record: AnalysisRecord, ratio: float, *, status: str = "done") -> None:
    """Record two observations of a ratio at two places."""
    record_analysis(
        record,
        status=status,
        summary={"ratio": 0.75 * ratio},
        places={"a": {"ratio": ratio}},
    )
    places = {
        "a": {"ratio": ratio},
        "b": {"ratio": ratio / 2, "mean_holds": None},
    }
    write_rows(record, {10: places, 20: places})


@pytest.fixture
def recorded(tmp_path: Path) -> tuple[Analysis, AnalysisGrid]:
    """RT under three norms and two seeds: LayerNorm done, AdaNorm half, DetachNorm diverged."""
    settings = {
        "tasks": "[rt]",
        "norms": "[layernorm, adanorm, detachnorm]",
        "seeds": "[1, 2]",
    }
    analysis = load_analysis("gradients", settings)
    grid = analysis_grid(analysis, runs=str(tmp_path))
    for record, ratio in zip(grid["layernorm", "rt"], (1.0, 0.8), strict=True):
        write(record, ratio)
    write(grid["adanorm", "rt"][0], 0.5)
    write(grid["detachnorm", "rt"][0], 0.5, status="diverged")
    return analysis, grid


def test_a_cell_is_mean_and_deviation_over_seeds(
    recorded: tuple[Analysis, AnalysisGrid],
) -> None:
    page = analysis_markdown(*recorded)
    for row in (
        "| LayerNorm | 0.675 ± 0.106 | -",
        "| AdaNorm | 0.375 | - |",
        "| DetachNorm | diverges |",
    ):
        assert row in page
    assert page.endswith("1 to 2 of the seeds 1, 2.\n"), "the seeds that ended, not those planned"


def test_a_size_that_spans_orders_of_magnitude_has_the_geometric_mean(
    tmp_path: Path,
) -> None:
    settings = {
        "tasks": "[enwik8-lstm]",
        "norms": "[layernorm]",
        "seeds": "[1, 2]",
    }
    analysis = load_analysis("time-steps", settings)
    grid = analysis_grid(analysis, runs=str(tmp_path))
    for record, first in zip(grid["layernorm", "enwik8-lstm"], (1.0, 1e-4), strict=True):
        record_analysis(record, summary={"far": 0.5, "factor": 0.7}, places={})
        far = {10: 10.0 * first, 20: 0.1 * first}
        write_rows(
            record,
            {at: {"a": {"far": x}, "b": {"far": 1e-8 * x}} for at, x in far.items()},
        )
    means = (1e-4, 1e-8)
    page = analysis_markdown(analysis, grid)
    assert (
        f"| LayerNorm | 0.700 ± 0.000 | - | {number(fmean(means))} ± {number(stdev(means))} |"
        in page
    )
    assert (
        r"observed (geometric means for: \|dl/da\| at the last step; \|dl/da\| 32 steps before), ±"
        in page
    )
    line = not_none(over_updates(analysis, grid, "enwik8-lstm")).figure.axes[-1].lines[0]
    assert xs(line) == [10, 20]
    assert ys(line) == pytest.approx([1e-5, 1e-7]), "over places and seeds"


def test_the_csv_has_one_line_per_place(
    recorded: tuple[Analysis, AnalysisGrid],
) -> None:
    rows = rows_of(analysis_csv(*recorded))
    lines = [" ".join([row["norm"], row["seed"], row["place"], row["mean"]]) for row in rows]
    assert lines == [
        "layernorm 1 a 1",
        "layernorm 2 a 0.8",
        "adanorm 1 a 0.5",
        "detachnorm 1 a 0.5",
    ]


def test_a_curve_is_the_mean_over_places_and_seeds(
    recorded: tuple[Analysis, AnalysisGrid],
) -> None:
    drawing = not_none(over_updates(*recorded, "rt"))
    assert drawing.name == "analysis-gradients-rt"
    (panel,) = drawing.figure.axes
    layernorm, adanorm, _ = panel.lines
    assert xs(layernorm) == [10, 20]
    assert ys(layernorm) == pytest.approx([0.675, 0.675])
    assert ys(adanorm) == pytest.approx([0.375, 0.375])
    assert legend(drawing) == ["LayerNorm", "AdaNorm", "DetachNorm"]
    assert panel.get_ylabel() == "variance of dl/dx × σ²/D"


def test_a_quantity_with_two_ends_is_a_band_averaged_over_seeds(
    tmp_path: Path,
) -> None:
    analysis = load_analysis(
        "landscape",
        {"tasks": "[mnist]", "norms": "[layernorm]", "seeds": "[1, 2]"},
    )
    grid = analysis_grid(analysis, runs=str(tmp_path))
    assert over_updates(analysis, grid, "mnist") is None, "no record yet"
    for one, (low, high) in zip(
        grid["layernorm", "mnist"],
        ((1.0, 2.0), (3.0, 4.0)),
        strict=True,
    ):
        record_analysis(one)
        write_rows(
            one,
            {
                10: {
                    "": {
                        "loss": 1.0,
                        "loss_low": low,
                        "loss_high": high,
                        "smoothness": 5.0,
                    }
                }
            },
        )
    drawing = not_none(over_updates(analysis, grid, "mnist"))
    loss, smoothness = drawing.figure.axes
    assert {y for _, y in corners(loss.collections[0])} == {2.0, 3.0}
    assert [ys(line) for line in smoothness.lines] == [[5.0]]
    assert legend(drawing)[-1] == "lowest to highest"


def test_a_norm_is_invariant_if_it_is_within_the_tolerance_under_every_seed(
    tmp_path: Path,
) -> None:
    analysis = load_analysis("invariance", {"norms": "[layernorm]", "seeds": "[1, 2]"})
    grid = analysis_grid(analysis, runs=str(tmp_path))
    for one, moved in zip(grid["layernorm", ""], (0.0, 1.0), strict=True):
        names = [quantity.name for quantity in analysis.shown]
        summary = {name: moved * (n == 0) + 10.0 ** -(3 * n + 3) for n, name in enumerate(names)}
        record_analysis(one, places={"": summary}, summary=summary)
    assert "| LayerNorm | no | no | yes | yes | yes | yes |" in analysis_markdown(analysis, grid)
