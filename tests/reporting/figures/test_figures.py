"""Figures from records made by hand: what is drawn, and that the same records give the same bytes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.text import Text
from scipy import stats

from adanorm.config.compose import compose_experiment
from adanorm.config.experiment import Experiment
from adanorm.config.paths import PROJECT
from adanorm.reporting.figures.catalogue import draw_figure, figure_names
from adanorm.reporting.figures.curves import curves, curves_of_the_paper
from adanorm.reporting.figures.scores import norm_scores, over_setting
from adanorm.reporting.figures.style import NORM_STYLES, NamedFigure, norm_styles, svg, write_figure
from adanorm.reporting.tables.table import Table
from adanorm.studies.grid import Candidate, CellPlan, study_grid
from adanorm.studies.study import load_study
from tests.reporting.records import record, said, score, seal

Cells = dict[str, list[Experiment]]


def plan(norm: str, task: str, runs: list[Experiment]) -> CellPlan:
    candidates = (Candidate((), {run.seed: run for run in runs}),) if runs else ()
    return CellPlan(norm, task, candidates)


def xs(line: Any) -> list[float]:
    return [float(x) for x in line.get_xdata()]


def ys(line: Any) -> list[float]:
    return [float(y) for y in line.get_ydata()]


def legend(drawing: NamedFigure) -> list[str]:
    (shown,) = drawing.figure.legends
    return [text.get_text() for text in shown.get_texts()]


def corners(collection: Any) -> list[list[float]]:
    found: list[list[float]] = collection.get_paths()[0].vertices.tolist()
    return found


def evaluations(*losses: float) -> list[dict[str, float]]:
    return [
        {"update": 46 * (i + 1), "epoch": i + 1, "train_loss": loss, "valid_loss": loss / 2}
        for i, loss in enumerate(losses)
    ]


@pytest.fixture
def cells(tmp_path: Path) -> Cells:
    """RT under two norms and three seeds; AdaNorm's second seed diverges and its third is not run."""
    found = {}
    for norm in ("layernorm", "adanorm"):
        first = compose_experiment(["task=rt", f"norm={norm}", f"runs={tmp_path / 'runs'}"])
        found[norm] = [first.model_copy(update={"seed": seed}) for seed in (1, 2, 3)]
    for run, shift in zip(found["layernorm"], (0.0, 0.1, 0.5), strict=True):
        record(run, rows=evaluations(1.0 + shift, 0.7 + shift, 0.4 + shift), **score(75 + shift))
    done, diverged, _ = found["adanorm"]
    record(done, rows=evaluations(1.0, 0.6, 0.3), **score(76))
    record(diverged, rows=evaluations(1.0, 4.0), status="diverged", valid=None, test=None)
    return found


@pytest.fixture
def drawing(cells: Cells) -> NamedFigure:
    found = curves("curves-rt-paper", cells)
    assert found is not None
    return found


def test_a_curve_is_the_mean_over_seeds_in_a_band_from_lowest_to_highest(drawing: NamedFigure) -> None:
    training = drawing.figure.axes[0]
    layernorm = training.lines[0]
    assert xs(layernorm) == [1, 2, 3]
    assert ys(layernorm) == pytest.approx([1.2, 0.9, 0.6])
    band = corners(training.collections[0])
    assert {y for x, y in band if x == 1} == {1.0, 1.5}
    assert {y for x, y in band if x == 3} == {0.4, 0.9}


def test_a_diverged_run_ends_in_a_cross_and_stays_out_of_the_mean(drawing: NamedFigure) -> None:
    _, adanorm, broken, end = drawing.figure.axes[0].lines
    assert ys(adanorm) == [1.0, 0.6, 0.3]
    assert ys(broken) == [1.0, 4.0]
    assert (end.get_marker(), ys(end)) == ("x", [4.0])
    assert "means over 2 to 3 seeds of 1 to 3." in drawing.caption, "those that are drawn"
    assert legend(drawing)[-1] == "diverged"
    assert (
        drawing.figure.get_suptitle() == "RT: lowest in training AdaNorm (0.3), in validation AdaNorm (0.15)"
    )


def test_a_norm_that_diverges_before_its_first_evaluation_is_in_the_legend_alone(cells: Cells) -> None:
    for run in cells["adanorm"]:
        record(run, status="diverged", valid=None, test=None)
        (run.folder() / "metrics.jsonl").unlink(missing_ok=True)
        seal(run.folder(), said(run.folder()))
    found = curves("curves-rt-paper", cells)
    assert found is not None
    assert legend(found) == ["LayerNorm", "AdaNorm", "lowest to highest seed", "diverged"]
    assert svg(found)


def test_translation_is_drawn_in_bits_below_it_the_papers_curves(tmp_path: Path) -> None:
    run = compose_experiment(["task=de-en", "norm=adanorm", "scale=mini", f"runs={tmp_path}"])
    record(run, rows=evaluations(3.0, 2.0))
    found = curves("curves-de-en-mini", {"adanorm": [run]})
    assert found is not None
    ours, _, paper, _ = found.figure.axes
    assert ys(ours.lines[0]) == pytest.approx([3 / 0.693147, 2 / 0.693147])
    assert ours.get_ylabel() == paper.get_ylabel() == "loss (bits per subword)"
    assert ys(paper.lines[0])[-1] == 3.115
    assert "not of the paper's data" in found.caption


def test_a_long_curves_steep_start_is_left_out_of_the_frame(tmp_path: Path) -> None:
    run = compose_experiment(["task=de-en", "norm=adanorm", "scale=mini", f"runs={tmp_path}"])
    late = [2.8, 2.7, 2.65, 2.6, 2.6, 2.61, 2.62, 2.62]
    for start, is_steep in (([5.0, 4.0], True), ([2.9, 2.8], False)):
        record(run, rows=evaluations(*start, *late))
        found = curves("curves-de-en-mini", {"adanorm": [run]})
        assert found is not None
        assert ("steep start" in found.caption) is is_steep
        axes = found.figure.axes[0]
        low, high = axes.get_ylim()
        shown = [low < y < high for y in ys(axes.lines[0])]
        assert shown == [not is_steep, not is_steep, *[True] * len(late)]
    record(run, rows=evaluations(5.0, *late))
    few = curves("curves-de-en-mini", {"adanorm": [run]})
    assert few is not None
    assert few.figure.axes[0].get_ylim()[1] > 5.0 / 0.693147, "of nine evaluations all are shown"


def test_the_papers_curves_are_those_it_reports() -> None:
    def curve(task: str, norm: str, part: str) -> list[float]:
        found = curves_of_the_paper(task)
        assert found is not None
        return found.by_norm[norm, part][0].y

    assert curve("enwik8", "layernorm", "train")[-1] == pytest.approx(1.007, abs=5e-4)
    assert curve("enwik8", "layernorm-simple", "valid")[-1] == pytest.approx(1.097, abs=5e-4)
    assert min(curve("ptb", "adanorm", "valid")) == pytest.approx(0.1123, abs=5e-5)
    assert min(curve("de-en", "layernorm", "valid")) == pytest.approx(3.847, abs=5e-4)
    assert curves_of_the_paper("rt") is None


def test_scores_are_drawn_with_their_interval_beside_the_papers_number(cells: Cells) -> None:
    study = load_study("table4")
    grid = {
        (norm, task): plan(norm, task, cells[norm] if task == "rt" else [])
        for norm in cells
        for task in study.columns
    }
    found = norm_scores("norms-table4", Table(study, grid))
    assert found is not None
    (panel,) = found.figure.axes
    whisker, mean, paper, other = panel.lines
    own = stats.t.interval(0.95, 2, 75.2, stats.sem([75.0, 75.1, 75.5]))  # of two norms, one has seeds
    assert xs(whisker) == pytest.approx(own)
    assert [*xs(mean), *xs(paper), *xs(other)] == pytest.approx([75.2, 77.21, 77.5])
    assert ys(paper)[0] < ys(mean)[0] < ys(paper)[0] + 1, "above the mean, which it does not hide"
    (seeds,) = panel.collections
    assert [x for x, _ in np.asarray(seeds.get_offsets())] == [75.0, 75.1, 75.5]
    assert [text.get_text() for text in panel.texts] == ["diverges (1/2)"]
    assert "Not run yet: En-De, De-En" in found.caption
    mini = norm_scores("norms-mini", Table(study.model_copy(update={"scale": "mini"}), grid))
    assert mini is not None
    assert len(mini.figure.axes[0].lines) == 2, "no number of the paper beside other data"
    assert "Not the paper's data or settings." in mini.caption


def test_what_has_no_records_is_not_drawn(tmp_path: Path) -> None:
    study = load_study("table4")
    empty = {(norm, task): plan(norm, task, []) for norm in study.rows for task in study.columns}
    assert norm_scores("norms-table4", Table(study, empty)) is None
    assert draw_figure("curves-enwik8-paper", runs=str(tmp_path)) is None
    with pytest.raises(ValueError, match="unknown figure 'curves-rt-huge': choose from answer, "):
        draw_figure("curves-rt-huge")


def test_a_study_may_show_curves_beside_the_papers_own(tmp_path: Path) -> None:
    study = load_study("figure2")
    grid = study_grid(study, runs=str(tmp_path))
    for row, task in grid:
        for run in grid[row, task].runs:
            record(run, rows=evaluations(1.0, 0.7, 0.4))
    assert {len(grid[row, "de-en"].runs) for row in study.rows if "De-En" in row} == {3}
    drawing = draw_figure("figure2-ptb", runs=str(tmp_path))
    assert drawing is not None
    assert [axes.get_title() for axes in drawing.figure.axes] == [
        "training, ours", "validation, ours", "training, paper", "validation, paper",
    ]  # fmt: skip
    assert [len(axes.lines) for axes in drawing.figure.axes] == [2, 2, 2, 2]
    released = grid["AdaNorm on De-En", "de-en"].runs[0]
    assert (released.norm.params["C"], released.training.max_updates) == (2, 90000)


def test_scores_over_a_setting_have_a_panel_for_what_sets_rows_of_one_norm_apart(tmp_path: Path) -> None:
    study = load_study("depth").model_copy(update={"columns": ["rt"], "seeds": (1,)})
    grid = study_grid(study, runs=str(tmp_path))
    scores = {"LayerNorm pre, 2": 73.0, "LayerNorm pre, 8": 74.0, "LayerNorm post, 2": 72.0}
    for row, found in scores.items():
        record(grid[row, "rt"].runs[0], test={"accuracy": found})
    record(grid["LayerNorm post, 16", "rt"].runs[0], status="diverged", test=None)
    drawn = over_setting("norms-depth", Table(study, grid))
    assert drawn is not None
    first, second = drawn.figure.axes
    assert first.get_title() == "RT: norms in front of a branch"
    assert second.get_title() == "RT: norms behind the sum"
    solid = NORM_STYLES["layernorm"].color
    lines = [[(xs(x), ys(x)) for x in axes.lines if x.get_color() == solid] for axes in (first, second)]
    assert lines[0] == [([2, 8], [73, 74])]
    assert lines[1][0] == ([2], [72])
    assert [x for x, _ in lines[1][1:]] == [[16]], "a cross"
    assert legend(drawn)[-1] == "every run diverges or fails"
    assert "seed 1" in drawn.caption


def test_a_caption_has_the_seeds_that_the_figure_shows_and_the_settings_of_its_runs(tmp_path: Path) -> None:
    study = load_study("batch-size")
    grid = study_grid(study, runs=str(tmp_path))
    first = grid["LayerNorm, 2", "mnist"].runs[0]
    for seed in (1, 2, 7):
        record(first.model_copy(update={"seed": seed}), test={"accuracy": 90.0 + seed})
    drawn = over_setting("norms-batch-size", Table(study, grid))
    assert drawn is not None
    assert ys(drawn.figure.axes[0].lines[1]) == [pytest.approx(93 + 1 / 3)]
    assert "training.max_epochs=5, model.norm_axes=all, seeds 1, 2, 7." in drawn.caption
    assert "undefined" in legend(drawn)


def test_norms_under_the_same_settings_stand_together_in_their_own_colours(tmp_path: Path) -> None:
    study = load_study("position")
    grid = study_grid(study, runs=str(tmp_path))
    for row in study.rows:
        record(grid[row, "rt"].runs[0], test={"accuracy": 75.0})
    drawn = norm_scores("norms-position", Table(study, grid))
    assert drawn is not None
    axes = drawn.figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["pre", "post", "sandwich"]
    colors = [(line.get_color(), round(ys(line)[0])) for line in axes.lines]
    assert colors == [(NORM_STYLES[n].color, at) for n in ("layernorm", "adanorm") for at in (0, 1, 2)]


def test_norms_far_above_the_others_leave_these_an_inset(tmp_path: Path) -> None:
    ends = {"layernorm": 4.3, "adanorm": 4.4, "none": 4.35, "detachnorm": 5.5}
    cells = {
        n: [compose_experiment(["task=en-de", f"norm={n}", "scale=mini", f"runs={tmp_path}"])] for n in ends
    }
    for norm, end in ends.items():
        record(cells[norm][0], rows=evaluations(6.0, end + 0.5, end))
    found = curves("curves-en-de-mini", cells)
    assert found is not None
    (inset,) = found.figure.axes[1].child_axes
    assert len(inset.lines) == 3


@pytest.mark.parametrize("mark", [r"$\frac{$", "<b>&"])
def test_a_name_is_no_formula_and_no_mark_up_in_a_figure(cells: Cells, tmp_path: Path, mark: str) -> None:
    study = load_study("table4").model_copy(update={"title": mark, "columns": ["rt"]})
    grid = {(norm, "rt"): plan(norm, "rt", cells[norm]) for norm in cells}
    found = norm_scores("norms-own", Table(study, grid))
    assert found is not None
    write_figure(found, tmp_path / "drawn")
    assert "<b>" not in (tmp_path / "drawn" / "norms-own.svg").read_text()
    assert "<b>" not in (tmp_path / "drawn" / "norms-own.md").read_text()


def test_evenly_spaced_values_stand_evenly(tmp_path: Path) -> None:
    for name, scale in (("ptb-folds", "linear"), ("depth", "log")):
        study = load_study(name)
        grid = study_grid(study, runs=str(tmp_path))
        record(next(iter(grid.values())).runs[0])
        drawn = over_setting(f"norms-{name}", Table(study, grid))
        assert drawn is not None
        assert drawn.figure.axes[0].get_xscale() == scale


def test_curves_of_one_norm_are_not_told_apart(tmp_path: Path) -> None:
    (tmp_path / "twice.yaml").write_text(
        "title: Twice\nrows: {a: {norm: adanorm}, b: {norm: adanorm}}\ncolumns: [rt]\n"
        "shows: curves\nscale: mini\nseeds: [1]\n"
    )
    with pytest.raises(ValueError, match="column 'rt': two rows have one norm"):
        load_study(str(tmp_path / "twice.yaml"))


def test_norms_are_told_apart_by_colour_by_marker_and_by_dashes() -> None:
    found = norm_styles([*NORM_STYLES, "mine", "yours"])
    assert found["adanorm"] == NORM_STYLES["adanorm"]
    for aspects in zip(*found.values(), strict=True):
        assert len(set(aspects)) == len(found)


DRAWN_ELSEWHERE = """
import json, sys
from pathlib import Path
from typing import Any
from adanorm.config.compose import compose_experiment
from adanorm.reporting.figures.curves import curves
from adanorm.reporting.figures.style import write_figure
overrides = json.loads(sys.argv[1])
cells = {norm: [compose_experiment(run) for run in runs] for norm, runs in overrides.items()}
write_figure(curves("curves-rt-paper", cells), Path(sys.argv[2]), ["svg", "pdf", "png"])
"""


def test_the_same_records_give_the_same_bytes_in_another_process(
    drawing: NamedFigure, cells: Cells, tmp_path: Path
) -> None:
    here = write_figure(drawing, tmp_path / "here", ["svg", "pdf", "png"])
    overrides = {
        norm: [["task=rt", f"norm={norm}", f"seed={run.seed}", f"runs={run.runs}"] for run in runs]
        for norm, runs in cells.items()
    }
    settings = tmp_path / "matplotlibrc"  # the user's own count for nothing
    settings.write_text("font.size: 20\nlines.linewidth: 7\n")
    subprocess.run(
        [sys.executable, "-c", DRAWN_ELSEWHERE, json.dumps(overrides), str(tmp_path / "there")],
        env={**os.environ, "PYTHONHASHSEED": "1", "MATPLOTLIBRC": str(settings)},
        check=True,
    )
    assert [path.suffix for path in here] == [".svg", ".pdf", ".png", ".md"]
    for path in here:
        assert path.read_bytes() == (tmp_path / "there" / path.name).read_bytes()


def cut_off(drawing: NamedFigure) -> list[str]:
    """The words of a figure that was drawn which reach beyond it."""
    # Matplotlib keeps the labels of ticks beyond what an axis shows, and does not draw them.
    unseen = {
        tick.label1
        for axes in drawing.figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks())
        if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
    }
    extents = [
        (text.get_text(), text.get_window_extent())
        for text in drawing.figure.findobj(Text)
        if isinstance(text, Text) and text.get_visible() and text.get_text() and text not in unseen
    ]
    right = drawing.figure.bbox.width
    return [word for word, found in extents if found.x0 < -1 or found.x1 > right + 1]


def test_the_committed_figures_are_those_of_the_committed_records(committed_runs: Path) -> None:
    drawn = set()
    for name in figure_names():
        if drawing := draw_figure(name, runs=str(committed_runs)):
            drawn.add(name)
            committed = PROJECT / "results" / "figures" / f"{name}.svg"
            assert committed.read_text() == svg(drawing), f"run `make figures`: {name} is stale"
            assert cut_off(drawing) == []
            assert len(drawing.caption.split()) <= 40, drawing.caption
            assert drawing.figure.get_suptitle()
    assert drawn == {path.stem for path in (PROJECT / "results" / "figures").iterdir()}
