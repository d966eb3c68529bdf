"""Figures from records made by hand: what is drawn, and that the same records give the same bytes."""

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from scipy import stats

from adanorm.analyses.spec import analysis_grid, load_analysis
from adanorm.config.experiment import Experiment
from adanorm.config.paths import PROJECT
from adanorm.reporting.figures.catalogue import figures
from adanorm.reporting.figures.curves import curves
from adanorm.reporting.figures.leads import evidence_accrual
from adanorm.reporting.figures.scores import norm_scores, over_setting
from adanorm.reporting.figures.square import square
from adanorm.reporting.figures.style import (
    NORM_STYLES,
    NamedFigure,
    norm_styles,
    rendered,
    write_figure,
)
from adanorm.reporting.tables.formats import table_markdown, table_text
from adanorm.reporting.tables.table import Table
from adanorm.studies.study import load_study, study_grid
from adanorm.verdicts.preregistration import Claim
from tests.reporting.records import (
    put,
    record,
    record_analysis,
    run_in,
    score,
    scored,
)
from tests.verdicts import not_none

Cells = dict[str, list[Experiment]]
ADANORM = Claim(
    id="a",
    text="a",
    source="a",
    better="adanorm",
    worse="layernorm",
    tasks=["mnist"],
)


def xs(line: Any) -> list[float]:
    return [*map(float, line.get_xdata())]


def ys(line: Any) -> list[float]:
    return [*map(float, line.get_ydata())]


def points_of(
    lines: Iterable[Any],
) -> list[tuple[list[float], list[float]]]:
    """Return x and y of those lines that have points."""
    return [(xs(line), ys(line)) for line in lines if xs(line)]


def legend(drawing: NamedFigure) -> list[str]:
    (box,) = drawing.figure.legends
    return [text.get_text() for text in box.get_texts()]


def corners(collection: Any) -> list[list[float]]:
    return collection.get_paths()[0].vertices.tolist()


def evaluations(*losses: float) -> list[dict[str, float]]:
    return [{"train_loss": loss, "valid_loss": loss / 2} for loss in losses]


def of_two_norms(runs: str) -> Cells:
    """Return RT under two norms and three seeds."""
    cells: Cells = {"layernorm": [], "adanorm": []}
    for norm, seed in product(cells, (1, 2, 3)):
        cells[norm].append(
            run_in(
                Path(runs),
                "task=rt",
                f"norm={norm}",
                seed=seed,
            )
        )
    return cells


@pytest.fixture
def cells(tmp_path: Path) -> Cells:
    """The runs of two norms; AdaNorm's second seed diverges and its third is not run."""
    cells = of_two_norms(str(tmp_path / "runs"))
    for run, shift in zip(cells["layernorm"], (0.0, 0.1, 0.5), strict=True):
        record(
            run,
            rows=evaluations(1.0 + shift, 0.7 + shift, 0.4 + shift),
            **score(75 + shift),
        )
    done, diverged, _ = cells["adanorm"]
    record(done, rows=evaluations(1.0, 0.6, 0.3), **score(76))
    record(
        diverged,
        rows=evaluations(1.0, 4.0),
        status="diverged",
        valid=None,
        test=None,
    )
    return cells


def test_curves_are_means_in_bands_and_a_diverged_run_ends_in_a_cross(
    cells: Cells,
) -> None:
    drawing = not_none(curves("curves-rt-paper", cells))
    training = drawing.figure.axes[0]
    layernorm, adanorm, broken, end = training.lines
    assert xs(layernorm) == [1, 2, 3]
    assert ys(layernorm) == pytest.approx([1.2, 0.9, 0.6])
    band = {tuple(corner) for corner in corners(training.collections[0])}
    assert band >= {(1, 1.0), (1, 1.5), (3, 0.4), (3, 0.9)}
    assert {y for x, y in band if x == 1} == {1.0, 1.5}
    assert (ys(adanorm), ys(broken)) == ([1.0, 0.6, 0.3], [1.0, 4.0])
    assert (end.get_marker(), ys(end)) == ("x", [4.0])
    assert "means over 2 to 3 of the seeds 1 to 3." in drawing.caption, "those that are drawn"
    title = "RT: lowest in training AdaNorm (0.3), in validation AdaNorm (0.15)"
    assert drawing.figure.get_suptitle() == title
    for run in cells["adanorm"]:  # before its first evaluation
        record(
            run,
            status="diverged",
            valid=None,
            test=None,
        )
        put(run.folder(), "metrics.jsonl", None)
    without = not_none(curves("curves-rt-paper", cells))
    assert legend(without) == [
        "LayerNorm",
        "AdaNorm",
        "lowest to highest seed",
        "diverged",
    ]
    assert rendered(without, "svg")


def test_translation_is_drawn_in_bits_beside_the_papers_curves(
    tmp_path: Path,
) -> None:
    run = run_in(tmp_path, "task=de-en", "norm=adanorm", "scale=mini")
    record(run, rows=evaluations(3.0, 2.0))
    drawing = not_none(curves("curves-de-en-mini", {"adanorm": [run]}))
    ours, _, paper, _ = drawing.figure.axes
    assert ys(ours.lines[0]) == pytest.approx([3 / 0.693147, 2 / 0.693147])
    assert ours.get_ylabel() == paper.get_ylabel() == "loss (bits per subword)"
    assert ys(paper.lines[0])[-1] == 3.115
    assert "do not have the paper's data" in drawing.caption


@pytest.mark.parametrize(
    ("task", "runs"), [("enwik8", "seeds 1 to 3"), ("de-en", "seeds 1 to 3"), ("ptb", "5 folds")]
)
def test_small_models_are_drawn_beside_the_papers_two_figures(task: str, runs: str) -> None:
    drawing = not_none(figures()[f"curves-{task}-small"](None))
    assert len(drawing.figure.axes) == 4
    assert f"small scale: means over {runs}" in drawing.caption
    repeated = "fold" if task == "ptb" else "seed"
    assert f"lowest to highest {repeated}" in legend(drawing)


# The last has nine evaluations.
@pytest.mark.parametrize(
    ("start", "is_steep"),
    [((5.0, 4.0), True), ((2.9, 2.8), False), ((5.0,), False)],
)
def test_a_long_curves_steep_start_is_left_out_of_the_frame(
    tmp_path: Path, start: tuple[float, ...], is_steep: bool
) -> None:
    run = run_in(tmp_path, "task=de-en", "norm=adanorm", "scale=mini")
    late = [2.8, 2.7, 2.65, 2.6, 2.6, 2.61, 2.62, 2.62]
    record(run, rows=evaluations(*start, *late))
    drawing = not_none(curves("curves-de-en-mini", {"adanorm": [run]}))
    assert ("steep start" in drawing.caption) is is_steep
    axes = drawing.figure.axes[0]
    low, high = axes.get_ylim()
    is_visible = [low < y < high for y in ys(axes.lines[0])]
    assert is_visible == [
        *[not is_steep] * len(start),
        *[True] * len(late),
    ]


def test_scores_are_drawn_with_their_interval_beside_the_papers_number(
    cells: Cells, tmp_path: Path
) -> None:
    study = load_study("table4")
    grid = study_grid(study, runs=str(tmp_path / "runs"))
    drawing = not_none(norm_scores("norms-table4", Table(study, grid)))
    (panel,) = drawing.figure.axes
    whisker, mean, paper, other = panel.lines
    own = stats.t.interval(
        0.95, 2, 75.2, stats.sem([75.0, 75.1, 75.5])
    )  # of two norms, one has seeds
    assert xs(whisker) == pytest.approx(own)
    assert [*xs(mean), *xs(paper), *xs(other)] == pytest.approx([75.2, 77.21, 77.5])
    assert ys(paper)[0] < ys(mean)[0] < ys(paper)[0] + 1, "above the mean, which it does not hide"
    assert [x for x, _ in np.asarray(panel.collections[0].get_offsets())] == [75.0, 75.1, 75.5]
    assert [text.get_text() for text in panel.texts] == ["diverged 1/2"]
    assert "Not run yet: En-De, De-En" in drawing.caption
    mini = not_none(
        norm_scores(
            "norms-mini",
            Table(study.model_copy(update={"scale": "mini"}), grid),
        )
    )
    assert len(mini.figure.axes[0].lines) == 2, "no number of the paper beside other data"
    assert "These runs do not have the paper's data and settings." in mini.caption


def test_a_figure_without_records_is_not_drawn(tmp_path: Path) -> None:
    assert norm_scores("norms-table4", scored("table4", tmp_path, {})) is None
    assert figures()["curves-enwik8-paper"](str(tmp_path)) is None
    assert (
        evidence_accrual(
            "evidence-a",
            ADANORM,
            str(tmp_path),
        )
        is None
    )


def test_a_study_may_show_curves_beside_the_papers_own(
    tmp_path: Path,
) -> None:
    grid = study_grid(load_study("figure2"), runs=str(tmp_path))
    for run in [run for plan in grid.values() for run in plan.runs]:
        record(run, rows=evaluations(1.0, 0.7, 0.4))
    axes = not_none(figures()["figure2-ptb"](str(tmp_path))).figure.axes
    titles = [
        "training, ours",
        "validation, ours",
        "training, paper",
        "validation, paper",
    ]
    assert [(panel.get_title(), len(panel.lines)) for panel in axes] == [
        (title, 2) for title in titles
    ]
    released = grid["AdaNorm on De-En", "de-en"].runs[0]
    assert (
        released.norm.params["C"],
        released.training.max_updates,
    ) == (2, 90000)


def test_scores_over_a_setting_have_one_panel_per_position_of_the_norms(
    tmp_path: Path,
) -> None:
    study = load_study("depth").model_copy(update={"columns": ["rt"], "seeds": (1,)})
    scores = {
        "LayerNorm pre, 2": 73.0,
        "LayerNorm pre, 8": 74.0,
        "LayerNorm post, 2": 72.0,
    }
    table = scored(
        study,
        tmp_path,
        {(row, "rt"): [accuracy] for row, accuracy in scores.items()},
    )
    record(
        table.grid["LayerNorm post, 16", "rt"].runs[0],
        status="diverged",
        test=None,
    )
    drawing = not_none(over_setting("norms-depth", Table(study, table.grid)))
    axes = drawing.figure.axes
    assert [p.get_title() for p in axes] == [
        "RT: pre-norm",
        "RT: post-norm",
    ]
    solid = NORM_STYLES["layernorm"].color
    front, behind = ([line for line in p.lines if line.get_color() == solid] for p in axes)
    assert points_of(front) == [([2, 8], [73, 74])]
    assert points_of(behind)[0] == ([2], [72])
    assert [xs(cross) for cross in behind[1:]] == [[16]]
    assert legend(drawing)[-1] == "a run diverges or fails"
    assert axes[0].get_xscale() == "log"
    one_fold = scored("ptb-folds", tmp_path, {("LayerNorm, fold 1", "ptb"): [86.0]})
    folds = not_none(over_setting("norms-ptb-folds", one_fold))
    assert folds.figure.axes[0].get_xscale() == "linear"
    assert legend(folds) == ["LayerNorm"], "of the norms that ran"
    assert "ahead" not in folds.figure.get_suptitle(), "of no other norm"


def test_wrong_labels_are_drawn_by_position_and_a_row_without_one_at_both(
    tmp_path: Path,
) -> None:
    study = load_study("label-noise").model_copy(update={"columns": ["rt"], "seeds": (41,)})
    grid = study_grid(study, runs=str(tmp_path))
    for row, memorized in (
        ("gain only pre, 0.4", 60.0),
        ("no norm, 0.4", 50.0),
    ):
        shares = {
            "accuracy": 55.0,
            "memorized": memorized,
            "recovered": 100 - memorized,
        }
        record(grid[row, "rt"].runs[0], tests=[shares], test=shares)
    axes = not_none(over_setting("norms-label-noise", Table(study, grid))).figure.axes
    learned, recovered = (
        [([0.4], [60]), ([0.4], [50])],
        [([0.4], [40]), ([0.4], [50])],
    )
    points = [points_of(panel.lines) for panel in axes]
    assert points == [learned, learned[1:], recovered, recovered[1:]]


def test_a_point_is_the_mean_of_all_runs_and_marks_runs_that_did_not_learn(
    tmp_path: Path,
) -> None:
    study = load_study("label-noise").model_copy(update={"columns": ["rt"]})
    grid = study_grid(study, runs=str(tmp_path))
    without = zip(
        grid["no norm, 0.4", "rt"].runs,
        (70, 20, 20),
        (60, 0, 0),
        strict=True,
    )
    for run, accuracy, memorized in without:
        record(
            run,
            tests=[{"accuracy": accuracy, "memorized": memorized}],
            test={"accuracy": accuracy},
        )
    lost, survivor = grid["AdaNorm pre, 0.4", "rt"].runs[:2]
    record(lost, status="diverged", test=None)
    record(
        survivor,
        tests=[{"accuracy": 70.0, "memorized": 50.0}],
        test={"accuracy": 70.0},
    )
    drawing = not_none(over_setting("norms-label-noise", Table(study, grid)))
    points = [[mark.get_marker(), *ys(mark)] for mark in drawing.figure.axes[0].lines if xs(mark)]
    assert [20, *"xv"] == [points[0][1], points[1][0], points[2][0]], (
        "the mean, not that of the survivor"
    )
    assert legend(drawing)[-3:-1] == [
        "a run diverges or fails",
        "a run does not learn",
    ]


def test_the_square_has_a_mean_and_its_lead_at_each_corner_that_has_run(
    tmp_path: Path,
) -> None:
    nothing = scored(
        "square-translation",
        tmp_path / "no",
        {("layernorm", "de-en"): [41.0]},
    )  # no grad-scale
    assert square("norms-square", nothing) is None
    scores = {
        "none": [75.0, 76.0],
        "grad-only": [76.0, 77.5],
        "grad-mean": [20.0, 70.0],
    }
    scores["detachnorm"] = [70.0]
    table = scored(
        "square",
        tmp_path,
        {(arm, "rt"): of for arm, of in scores.items()},
    )
    analysis = load_analysis("gradients")
    (measured,) = analysis_grid(analysis, runs=str(tmp_path))["grad-only", "rt"]
    sites = {site: {"variance_before": size} for site, size in (("last", 0.25), ("first", 4.0))}
    record_analysis(
        measured,
        task="rt",
        scale="mini",
        norm_sites=["first", "last"],
        places=sites,
    )
    figure = not_none(square("norms-square", table)).figure
    corners_, layers = figure.axes
    texts = [text.get_text() for text in corners_.texts]
    assert texts[:4] == ["-", "45.00*\n-30.50", "-", "76.75\n+1.25"], "one run did not learn"
    assert texts[4:] == ["70.00\n-5.00", *"---"], "a lead is over shared seeds"
    assert corners_.get_title().endswith(", no norm 75.50")
    assert [(xs(line), ys(line)) for line in layers.lines] == [([1, 2], [2, 0.5])]


def test_a_figure_over_a_setting_names_seeds_settings_and_undefined_rows(
    tmp_path: Path,
) -> None:
    study = load_study("batch-size")
    grid = study_grid(study, runs=str(tmp_path))
    for seed in (1, 2, 7):
        run = grid["LayerNorm, 2", "mnist"].runs[0].model_copy(update={"seed": seed})
        record(run, test={"accuracy": 90.0 + seed})
    table = Table(study, grid)
    assert table.ours("BatchNorm, 1", "mnist") == "undefined"
    assert "BatchNorm, 1       undefined" in table_text(table)
    assert "*undefined*: one example has no variance over the batch." in table_markdown(table)
    drawing = not_none(over_setting("norms-batch-size", table))
    assert "BatchNorm: one example has no variance over the batch." in drawing.caption
    assert [xs(mark) for mark in drawing.figure.axes[0].lines if mark.get_marker() == "o"][-1] == [
        1
    ]
    assert ys(drawing.figure.axes[0].lines[1]) == [pytest.approx(93 + 1 / 3)]
    assert "seeds 1, 2, 7." in drawing.caption
    assert drawing.figure.axes[0].get_title() == "MNIST, training.max_epochs=5, model.norm_axes=all"
    assert "undefined" in legend(drawing)


@pytest.mark.parametrize("mark", [r"$\frac{$", "<b>&"])
def test_a_figure_shows_names_as_plain_text(tmp_path: Path, mark: str) -> None:
    study = load_study("table4").model_copy(update={"title": mark, "columns": ["rt"]})
    table = scored(study, tmp_path, {("adanorm", "rt"): [75.0]})
    write_figure(not_none(norm_scores("norms-own", table)), tmp_path / "drawn")
    for path in (tmp_path / "drawn").iterdir():
        assert "<b>" not in path.read_text()


def test_evidence_of_a_plan_is_drawn_at_its_looks_within_the_panel(
    tmp_path: Path,
) -> None:
    noise = np.random.default_rng(0).normal(0, 0.01, 60).tolist()
    claim = ADANORM.model_copy(update={"tasks": ["rt", "enwik8"]})
    of_tasks = {
        "rt": ("paper", 70.0, range(41, 51)),
        "enwik8": ("small", 2.0, range(1, 8)),
    }
    for norm, (task, (scale, mean, seeds)) in product(("layernorm", "adanorm"), of_tasks.items()):
        for seed in seeds:
            run = run_in(
                tmp_path,
                f"task={task}",
                f"scale={scale}",
                f"norm={norm}",
                seed=seed,
            )
            value = {run.task.metric: mean + noise[seed] * (norm == "adanorm")}
            record(
                run,
                valid=value,
                test=value,
                tests=[value],
            )
    drawing = not_none(
        evidence_accrual(
            "evidence-a",
            claim,
            str(tmp_path),
        )
    )
    panels: list[Any] = drawing.figure.axes
    dots = []
    for axes in panels:
        dots.append([xs(line)[0] for line in axes.lines if line.get_marker() == "o"])
    assert dots == [[10], [3, 6]]
    assert [axes.get_xlim()[1] for axes in panels] == [10.5, 6.5]


def test_evidence_is_drawn_after_each_seed_by_the_seeds_so_far(
    tmp_path: Path,
) -> None:
    """MNIST, margin 0.1, where AdaNorm is 0.2 +- 0.01 better with each of four seeds; the paper has 0.22."""
    study = load_study("table4").model_copy(update={"seeds": (1, 2, 3, 4)})
    adanorm = (99.21, 99.19, 99.2, 99.2)
    scored(
        study,
        tmp_path,
        {
            ("layernorm", "mnist"): [99.0] * 4,
            ("adanorm", "mnist"): adanorm,
        },
    )
    scored("table2", tmp_path, {("none", "mnist"): (99.1, 99.1, 99.1)})
    drawing = not_none(
        evidence_accrual(
            "evidence-a",
            ADANORM,
            str(tmp_path),
        )
    )
    axes: Any = drawing.figure.axes[0]
    effects = [line for line in axes.lines if line.get_marker() == "o"]
    assert [xs(line)[0] for line in effects] == [2, 3, 4]
    assert [ys(line)[0] for line in effects] == pytest.approx([0.2, 0.2, 0.2])
    intervals = [max(ys(line)) for line in axes.lines if len(set(ys(line))) == 2]
    assert axes.get_ylim()[1] == pytest.approx(1.1 * intervals[-2]), (
        "that of the sign, not of the size"
    )
    assert drawing.figure.get_suptitle() == "AdaNorm beside LayerNorm: better on MNIST"
    assert (legend(drawing)[0], legend(drawing)[-2:]) == (
        "better",
        ["smaller than the margin", "the paper's lead"],
    )
    assert "worse" not in legend(drawing)


def test_norms_are_told_apart_by_colour_by_marker_and_by_dashes() -> None:
    styles = norm_styles([*NORM_STYLES, "mine", "yours"])
    assert styles["adanorm"] == NORM_STYLES["adanorm"]
    for aspects in zip(*styles.values(), strict=True):
        assert len(set(aspects)) == len(styles)


DRAWN_ELSEWHERE = """
import sys
from pathlib import Path
from adanorm.reporting.figures.curves import curves
from adanorm.reporting.figures.style import write_figure
from tests.reporting.figures.test_figures import of_two_norms
write_figure(curves("curves-rt-paper", of_two_norms(sys.argv[1])), Path(sys.argv[2]), ["svg", "pdf", "png"])
"""


def test_a_last_binary_digit_changes_no_byte_of_a_figure() -> None:
    """Sizes and positions differ by as much between processors."""
    texts = []
    for factor in (1, 1 + 2**-52):
        figure = Figure(figsize=(4 * factor, 3))
        axes = figure.subplots()
        axes.plot([0, 1], [0, factor])
        axes.bar([1], [factor], hatch="/")
        texts.append(rendered(NamedFigure("two", "caption", figure), "svg"))
    assert b"clip-path" in texts[0]
    assert texts[0] == texts[1]


def test_coordinates_are_rounded_and_texts_are_not() -> None:
    figure = Figure()
    figure.subplots().plot([1 / 3, 2 / 3], [1 / 7, 22 / 7], label="p = 0.00012")
    figure.legend()
    svg = rendered(NamedFigure("line", "caption", figure), "svg").decode()
    assert not re.search(r'="[^"]*\d\.\d{4}', svg)
    assert "p = 0.00012" in svg


def test_the_same_records_give_the_same_bytes_in_another_process(
    cells: Cells, tmp_path: Path
) -> None:
    here = write_figure(
        not_none(curves("curves-rt-paper", cells)),
        tmp_path / "here",
        ["svg", "pdf", "png"],
    )
    settings = tmp_path / "matplotlibrc"  # the user's own count for nothing
    settings.write_text("font.size: 20\nlines.linewidth: 7\n")
    subprocess.run(
        [
            sys.executable,
            "-c",
            DRAWN_ELSEWHERE,
            tmp_path / "runs",
            tmp_path / "there",
        ],
        cwd=PROJECT,
        env={
            **os.environ,
            "PYTHONHASHSEED": "1",
            "MATPLOTLIBRC": str(settings),
        },
        check=True,
    )
    assert [path.suffix for path in here] == [
        ".svg",
        ".pdf",
        ".png",
        ".md",
    ]
    for path in here:
        assert path.read_bytes() == (tmp_path / "there" / path.name).read_bytes()


def cut_off(drawing: NamedFigure) -> list[str]:
    """Return the words of a figure that was drawn which reach beyond it."""
    # Matplotlib keeps the labels of ticks beyond what an axis shows, and does not draw them.
    unseen = set()
    for panel in drawing.figure.axes:
        for axis in (panel.xaxis, panel.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in (
                *axis.get_major_ticks(),
                *axis.get_minor_ticks(),
            ):
                if not low <= tick.get_loc() <= high:
                    unseen.add(tick.label1)
    words = []
    for text in drawing.figure.findobj(Text):
        if text.get_visible() and text.get_text() and text not in unseen:
            extent = text.get_window_extent()
            if extent.x0 < -1 or extent.x1 > drawing.figure.bbox.width + 1:
                words.append(text.get_text())
    return words


@pytest.mark.records
def test_the_committed_figures_are_those_of_the_committed_records(
    committed_runs: Path,
) -> None:
    names = set()
    for name, draw in figures().items():
        if drawing := draw(str(committed_runs)):
            names.add(name)
            committed = PROJECT / "results" / "figures" / f"{name}.svg"
            assert committed.read_bytes() == rendered(drawing, "svg"), (
                f"run `make figures`: {name} is stale"
            )
            assert cut_off(drawing) == []
            assert len(drawing.caption.split()) <= 40, drawing.caption
            assert drawing.figure.get_suptitle()
    assert names == {path.stem for path in (PROJECT / "results" / "figures").iterdir()}
