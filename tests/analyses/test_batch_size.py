"""The study of the batch size: its undefined cells, its table and its figure."""

from pathlib import Path

import pytest

from adanorm.config.compose import compose_experiment
from adanorm.models.norm_sites import why_unsupported
from adanorm.norms import norm_factory
from adanorm.reporting.figures.scores import over_setting
from adanorm.reporting.tables.formats import table_markdown, table_text
from adanorm.reporting.tables.table import Table
from adanorm.studies.grid import study_grid
from adanorm.studies.study import load_study
from tests.reporting.figures.test_figures import xs, ys
from tests.reporting.records import record, score

STUDY = load_study("batch-size")


def test_the_rows_marked_undefined_are_those_that_no_run_could_be_of() -> None:
    for row in (row for row in STUDY.rows.values() if row.at in (1, 2)):
        norm, size, axes = row.norm, *row.overrides, STUDY.overrides[-1]
        run = compose_experiment(["task=mnist", f"norm={norm}", size, axes])
        assert size == f"data.batch_size={row.at:g}"
        trial = norm_factory(run.norm).trial
        assert bool(why_unsupported(trial, run.model.sites(), int(row.at or 0))) == bool(row.undefined)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """LayerNorm at 1 and 2, two seeds each; BatchNorm diverged at 2."""
    rows = {name: row for name, row in STUDY.rows.items() if row.at in (1, 2) and row.norm != "adanorm"}
    small = STUDY.model_copy(update={"rows": rows, "seeds": [1, 2]})
    grid = study_grid(small, runs=str(tmp_path))
    for label, base in (("LayerNorm, 1", 90.0), ("LayerNorm, 2", 94.0)):
        for run in grid[label, "mnist"].runs:
            record(run, **score(base + run.seed))
    record(grid["BatchNorm, 2", "mnist"].runs[0], status="diverged", valid=None, test=None)
    return Table(small, grid)


def test_an_undefined_cell_says_so_and_has_no_runs_and_scores_are_drawn_over_the_size(table: Table) -> None:
    assert table.grid["BatchNorm, 1", "mnist"].runs == []
    assert table.ours("BatchNorm, 1", "mnist") == "undefined"
    assert "BatchNorm, 1       undefined" in table_text(table)
    assert "*undefined*: one example has no variance over the batch." in table_markdown(table)
    drawing = over_setting("norms-batch-size", table)
    assert drawing is not None
    (panel,) = drawing.figure.axes
    batchnorm, layernorm, *marks = panel.lines
    assert xs(batchnorm) == []
    assert xs(layernorm) == [1, 2]
    assert ys(layernorm) == [91.5, 95.5]
    assert [(xs(mark), mark.get_marker()) for mark in marks] == [([1], "o"), ([2], "x")]
    assert "BatchNorm: one example has no variance over the batch." in drawing.caption
    (legend,) = drawing.figure.legends
    assert "every run diverges or fails" in [text.get_text() for text in legend.get_texts()]
