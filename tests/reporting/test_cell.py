"""Cells and tables from records made by hand, with known answers."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest

from adanorm.config.compose import compose_experiment
from adanorm.config.experiment import Experiment
from adanorm.config.paths import PROJECT, choices
from adanorm.config.titles import task_metric
from adanorm.records.baselines import best_baseline
from adanorm.records.published import published, published_tasks
from adanorm.records.reader import runs_on_record
from adanorm.reporting.report import report_page
from adanorm.reporting.tables.claims import claims_markdown
from adanorm.reporting.tables.epoch_choice import epoch_choice_markdown
from adanorm.reporting.tables.findings import findings_markdown
from adanorm.reporting.tables.formats import table_csv, table_latex, table_markdown, table_text, write_table
from adanorm.reporting.tables.reproducibility import reproducibility_markdown
from adanorm.reporting.tables.table import Table
from adanorm.studies.grid import study_grid
from adanorm.studies.study import load_study
from adanorm.verdicts.cell import cell
from adanorm.verdicts.claims import claim_results
from adanorm.verdicts.epoch_choice import epoch_choices
from adanorm.verdicts.reproducibility import agreements
from adanorm.verdicts.variance import Spread
from tests.reporting.records import record, score


@pytest.fixture
def runs(tmp_path: Path) -> list[Experiment]:
    """Three seeds of RT under LayerNorm, for which the paper has 77.21."""
    first = compose_experiment(["task=rt", "norm=layernorm", f"runs={tmp_path}"])
    return [first.model_copy(update={"seed": seed}) for seed in (1, 2, 3)]


def test_the_papers_numbers_are_typed_in_full() -> None:
    assert published_tasks() == ["en-de", "de-en", "en-vi", "enwik8", "rt", "sst5", "mnist", "ptb"]
    norms = ("none", "layernorm", "layernorm-simple", "detachnorm", "adanorm", "detach-mean", "detach-var")
    for task in published_tasks():
        assert all(published(task, norm) is not None for norm in norms)
    assert published("mnist", "adanorm").value == 99.35  # type: ignore[union-attr]
    assert published("en-de", "none").value is None  # type: ignore[union-attr]
    assert [n for n in norms if not published("rt", n).confirmed] == ["detach-mean", "detach-var"]  # type: ignore[union-attr]


def test_the_papers_metrics_are_named_as_the_tasks_are() -> None:
    for task in published_tasks():
        assert published(task, "layernorm").metric == task_metric(task).label  # type: ignore[union-attr]


SPREAD = Spread(1.0, 14)  # of a run, pooled over seven norms of three seeds


def test_an_empty_cell_is_a_dash_and_not_run(runs: list[Experiment]) -> None:
    assert (cell(runs).text, cell(runs).verdict(None)) == ("-", "not run")


def test_a_cell_shows_mean_and_deviation(runs: list[Experiment]) -> None:
    for run, accuracy in zip(runs, (76.0, 77.0, 78.0), strict=True):
        record(run, **score(accuracy))
    assert cell(runs).text == "77.00 ± 1.00"
    assert cell(runs).verdict(SPREAD) == "consistent (57 %)", "77.21 lies above 57 % of runs"


def test_missing_seeds_are_said(runs: list[Experiment]) -> None:
    record(runs[0], **score(76.0))
    assert (cell(runs).text, cell(runs).verdict(None)) == ("76.00 (1/3 seeds)", "inconclusive")
    record(runs[1], **score(77.0))
    assert cell(runs).text == "76.50 ± 0.71 (2/3 seeds)"


def test_a_seed_beyond_those_planned_enters_by_itself(runs: list[Experiment]) -> None:
    for run, accuracy in zip(runs, (76.0, 77.0, 78.0), strict=True):
        record(run, **score(accuracy))
    record(runs[0].model_copy(update={"seed": 4}), **score(81.0))
    assert cell(runs).text == "78.00 ± 2.16"
    assert cell(runs).by_seed == {1: 76.0, 2: 77.0, 3: 78.0, 4: 81.0}


@pytest.mark.parametrize(
    ("mean", "verdict"),
    [
        (76.0, "consistent (84 %)"),  # 77.21 is 1.05 of 1.155 away
        (75.3, "inconclusive (94 %)"),
        (74.2, "differs (99 %)"),
        (80.5, "differs (1 %)"),
    ],
)
def test_verdicts_follow_the_spread_of_the_task_and_not_the_cells_own(
    runs: list[Experiment], mean: float, verdict: str
) -> None:
    for own in (0.01, 2.0):  # a lucky cell and a noisy one
        for run, step in zip(runs, (-1, 0, 1), strict=True):
            record(run, **score(mean + own * step))
        assert cell(runs).verdict(SPREAD) == verdict


def test_no_verdict_is_given_against_a_recollected_number(tmp_path: Path) -> None:
    run = compose_experiment(["task=rt", "norm=detach-mean", f"runs={tmp_path}"])
    record(run, **score(75.0))
    assert cell([run]).verdict(SPREAD) == "no verdict"


def test_divergence_and_failure_are_shown(runs: list[Experiment]) -> None:
    record(runs[0], status="diverged", valid=None, test=None)
    record(runs[1], **score(76.0))
    assert (cell(runs).text, cell(runs).verdict(SPREAD)) == ("Diverge (1/2)", "differs: diverges 1/2")
    record(runs[1], status="failed")
    (runs[0].folder() / "result.json").unlink()
    assert cell(runs).text == "failed"


def test_runs_no_better_than_the_majority_class_did_not_learn(runs: list[Experiment]) -> None:
    for run, accuracy in zip(runs, (48.0, 48.6, 76.0), strict=True):  # the majority class has 48.67
        record(run, **score(accuracy))
    found = cell(runs)
    assert found.text.endswith(", did not learn (2/3)")
    assert found.verdict(SPREAD) == "did not learn (2/3)"
    assert found.by_seed == {3: 76.0}, "what did not learn is compared with nothing"


def test_whether_a_run_learned_is_said_by_its_tasks_own_metric_whichever_is_shown(tmp_path: Path) -> None:
    run = compose_experiment(["task=ptb", "norm=adanorm", "scale=mini", f"runs={tmp_path}"])
    baseline = best_baseline(run, "uas")
    assert baseline is not None
    record(run, valid={"uas": 90.0}, test={"uas": 90.0, "uas_all": baseline.score - 1})
    shown = cell([run], metric="uas_all")
    assert (shown.metric, shown.unlearned) == ("uas_all", ())


def test_what_is_half_written_or_of_another_schema_is_not_counted(runs: list[Experiment]) -> None:
    record(runs[0], **score(70.0))
    record(runs[1], **score(10.0))
    path = runs[1].folder() / "result.json"
    path.write_text(path.read_text()[:40])
    record(runs[2], **score(10.0), schema=99)
    with pytest.warns(UserWarning, match="not counted"):
        assert cell(runs).text == "70.00 (1/3 seeds)"


def test_stray_runs_cannot_enter_a_cell(runs: list[Experiment], tmp_path: Path) -> None:
    record(
        compose_experiment(["task=rt", "norm=layernorm", "training.lr=0.5", f"runs={tmp_path}"]), **score(1.0)
    )
    assert cell(runs).text == "-"
    for odd in ("smoke-seedX-0", "mini-seed2", "paper-seed٣-00000000"):
        (runs[1].folder().parent / odd.replace("smoke", runs[1].scale)).mkdir(parents=True)
    record(runs[1], **score(76.0))
    (runs[1].folder().parent / "paper-seedX-00000000").mkdir()
    assert [run.seed for run in runs_on_record(runs[0])] == [2], "not of another learning rate, or of none"


def test_seeds_that_settings_are_chosen_by_are_no_evidence(runs: list[Experiment]) -> None:
    chosen_by = runs[0].model_copy(update={"seed": 101})
    for run, accuracy in ((runs[0], 76.0), (chosen_by, 90.0)):
        record(run, **score(accuracy))
    assert cell(runs).scores == [76.0]
    assert cell([chosen_by]).scores == [90.0]
    last, fresh = (runs[0].model_copy(update={"seed": seed}) for seed in (40, 41))
    for run in (last, fresh):
        record(run, **score(77.0))
    assert [run.seed for run in runs_on_record(runs[0])] == [1, 40]
    assert [run.seed for run in runs_on_record(last)] == [1, 40]
    assert [run.seed for run in runs_on_record(fresh)] == [41], "what one plan decided is not decided again"
    assert [run.seed for run in runs_on_record(chosen_by)] == [101]


def test_smaller_scales_and_own_data_have_no_paper_number(tmp_path: Path) -> None:
    mini = compose_experiment(["task=rt", "norm=layernorm", "scale=mini", f"runs={tmp_path}"])
    record(mini, **score(70.0))
    assert cell([mini]).paper is None
    for split in ("train", "valid", "test"):
        (tmp_path / split).write_text("a\tone\nb\ttwo\n")
    own = compose_experiment(
        ["task=rt", f"runs={tmp_path}", *(f"data.{s}={tmp_path / s}" for s in ("train", "valid", "test"))]
    )
    assert cell([own]).paper is None


@pytest.mark.parametrize(
    ("task", "source", "is_shown"),
    [("rt", "rt", True), ("rt", "sst5", False), ("rt", "synthetic", False), ("mnist", "mnist-5k", False)],
)
def test_data_that_stand_in_for_the_papers_have_no_paper_number(
    tmp_path: Path, task: str, source: str, is_shown: bool
) -> None:
    run = compose_experiment([f"task={task}", "norm=layernorm", f"data.source={source}", f"runs={tmp_path}"])
    record(run, **score(70.0))
    assert (cell([run]).paper is not None) == is_shown


def test_a_norm_from_outside_has_no_paper_number_whatever_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "theirs.py").write_text("from torch import nn\nclass layernorm(nn.Identity): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    outside = compose_experiment(["task=rt", "norm=theirs:layernorm", f"runs={tmp_path}"])
    assert outside.norm.name == "layernorm"
    record(outside, **score(70.0))
    assert cell([outside]).paper is None


@pytest.fixture
def table(tmp_path: Path) -> Table:
    study = load_study("table4")
    grid = study_grid(study, runs=str(tmp_path))
    for norm, accuracies in (("layernorm", (99.1, 99.2, 99.3)), ("adanorm", (99.3, 99.3, 99.3))):
        for run, accuracy in zip(grid[norm, "mnist"].runs, accuracies, strict=True):
            record(run, **score(accuracy))
    return Table(study, grid)


def test_a_table_has_the_papers_layout(table: Table) -> None:
    lines = table_markdown(table).partition("\n## ")[0].splitlines()
    header, *body = [[field.strip() for field in line.strip("|").split("|")] for line in lines if "|" in line]
    assert header[0] == "Model"
    assert header[7] == "MNIST (accuracy)"
    cells = {row[0] if row[0][0] != "·" else f"{body[i - 1][0]}{row[0]}": row for i, row in enumerate(body)}
    assert cells["LayerNorm"][7] == "99.20 ± 0.10"
    assert cells["LayerNorm· paper"][7] == "99.13"
    assert cells["LayerNorm"][1] == "-"
    assert cells["AdaNorm over LayerNorm"][7] == "+0.10"
    assert cells["AdaNorm over LayerNorm· paper"][7] == "+0.22"


def test_adding_seed_4_of_one_cell_changes_the_tables_by_itself(tmp_path: Path) -> None:
    study = load_study("table4")
    grid = study_grid(study, runs=str(tmp_path))
    runs = grid["adanorm", "mnist"].runs
    for run, accuracy in zip(runs, (99.1, 99.2, 99.3), strict=True):
        record(run, **score(accuracy))
    before = Table(study, grid)
    assert "99.20 ± 0.10" in table_latex(before).replace(r"$\pm$", "±")
    record(runs[0].model_copy(update={"seed": 4}), **score(99.6))
    after = Table(study, grid)
    for text in (table_markdown(after), table_latex(after).replace(r"$\pm$", "±"), table_text(after)):
        assert "99.30 ± 0.22" in text
    rows = csv.DictReader(io.StringIO(table_csv(after)))
    assert [row["seeds"] for row in rows if row["scores"]] == ["1 2 3 4"]


def test_the_level_stands_beside_the_best_evaluation(table: Table) -> None:
    rows = [{"valid_accuracy": x} for x in (90.0, 91.0, 92.0, 93.0, 95.0, 99.0)]
    for run in table.grid["adanorm", "mnist"].runs:
        record(run, rows=rows, **score(99.0))
    after = Table(table.study, table.grid)
    assert "| AdaNorm | 99.00, 97.00 |" in table_markdown(after)


def test_norms_over_channels_are_told_from_those_over_all_units(tmp_path: Path) -> None:
    study = load_study("beyond")
    grid = study_grid(study, runs=str(tmp_path))
    for norm in ("layernorm", "batchnorm"):
        record(grid[norm, "mnist"].runs[0], **score(98.0))
    table = Table(study, grid)
    assert table.ours("batchnorm", "mnist") == "98.00 (1/3 seeds) [over channels]"
    assert table.ours("layernorm", "mnist") == "98.00 (1/3 seeds)"


def test_improvement_means_lower_for_bits_per_character(table: Table) -> None:
    assert table.improvement("layernorm", "adanorm", "enwik8") == ("-", "+0.00")
    study = load_study("table2")
    second = Table(study, study_grid(study, runs="nowhere"))
    assert second.improvement("none", "detachnorm", "enwik8") == ("-", "-0.08")
    assert second.improvement("none", "detachnorm", "en-de") == ("-", "-")  # both diverge


def test_fewer_bits_are_the_best_and_an_improvement(tmp_path: Path) -> None:
    study = load_study("table4")
    grid = study_grid(study, runs=str(tmp_path))
    for norm, bits in (("layernorm", (1.06, 1.07, 1.08)), ("adanorm", (0.98, 0.99, 0.99))):
        for run, bpc in zip(grid[norm, "enwik8"].runs, bits, strict=True):
            record(run, test={"bpc": bpc})
    table = Table(study, grid)
    assert table.best("enwik8") == "adanorm"
    assert table.improvement("layernorm", "adanorm", "enwik8") == ("+0.08", "+0.00")


def test_the_csv_holds_every_cell_unrounded(table: Table) -> None:
    found = list(csv.DictReader(io.StringIO(table_csv(table))))
    assert len(found) == 2 * 8
    (mnist,) = [row for row in found if (row["task"], row["norm"]) == ("mnist", "layernorm")]
    assert (mnist["scores"], mnist["mean"], mnist["paper"]) == ("99.1000 99.2000 99.3000", "99.2000", "99.13")
    assert mnist["verdict"] == "consistent (22 %)"
    assert (mnist["seeds"], mnist["unlearned"], mnist["baseline"]) == ("1 2 3", "", "11.3500")


def test_the_csvs_seeds_are_those_of_its_scores(tmp_path: Path) -> None:
    study = load_study("table4")
    grid = study_grid(study, runs=str(tmp_path))
    first, *others = grid["adanorm", "mnist"].runs
    record(first, status="failed")
    for run, accuracy in zip(others, (99.2, 99.3), strict=True):
        record(run, **score(accuracy))
    (row,) = [row for row in csv.DictReader(io.StringIO(table_csv(Table(study, grid)))) if row["scores"]]
    assert (row["seeds"], row["scores"], row["failed"]) == ("2 3", "99.2000 99.3000", "1")


def test_the_csv_has_the_best_evaluation_and_the_level_in_their_columns(tmp_path: Path) -> None:
    study = load_study("table4")
    grid = study_grid(study, runs=str(tmp_path))
    curves = {"mnist": (90.0, 91.0, 92.0, 93.0, 95.0, 99.0), "enwik8": (1.5, 1.4, 1.3, 1.2, 1.1, 1.0)}
    for task, curve in curves.items():
        run = grid["adanorm", task].runs[0]
        rows = [{f"valid_{run.task.metric}": x} for x in curve]
        record(run, rows=rows, test={run.task.metric: curve[-1]})
    found = csv.DictReader(io.StringIO(table_csv(Table(study, grid))))
    shown = {
        row["task"]: (float(row["valid_best"]), float(row["valid_level"])) for row in found if row["scores"]
    }
    assert shown == {"mnist": (99.0, 97.0), "enwik8": (1.0, 1.05)}


def test_the_latex_table_has_as_many_columns_in_every_row(table: Table) -> None:
    rows = [line for line in table_latex(table).splitlines() if line.endswith(r"\\")]
    assert {row.count("&") for row in rows} == {8}
    assert r"99.20 $\pm$ 0.10" in table_latex(table)
    assert table_latex(table).count("{") == table_latex(table).count("}")


def test_only_what_is_significantly_best_is_bold(tmp_path: Path) -> None:
    study = load_study("table4")
    grid = study_grid(study, runs=str(tmp_path))
    for norm, accuracies in (("layernorm", (75.0, 76.0, 77.0)), ("adanorm", (78.0, 79.1, 79.9))):
        for run, accuracy in zip(grid[norm, "rt"].runs, accuracies, strict=True):
            record(run, **score(accuracy))
    for norm, accuracies in (("layernorm", (99.0, 99.2, 99.1)), ("adanorm", (99.1, 99.2, 99.5))):
        for run, accuracy in zip(grid[norm, "mnist"].runs, accuracies, strict=True):
            record(run, **score(accuracy))
    text = table_markdown(Table(study, grid))
    assert "| **79.00 ± 0.95** |" in text
    assert "| 99.27 ± 0.21 |" in text
    assert r"\textbf{79.00 $\pm$ 0.95}" in table_latex(Table(study, grid))


def test_the_terminal_shows_a_table_within_80_columns(table: Table) -> None:
    text = table_text(table)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "no runs yet: En-De, De-En" in text


def test_unconfirmed_numbers_are_marked() -> None:
    study = load_study("table3")
    text = table_markdown(Table(study, study_grid(study, runs="nowhere")))
    assert "77.04†" in text
    assert "76.66 |" in text
    assert "no public source confirms" in text


def test_quoted_numbers_of_the_paper_get_no_verdict(tmp_path: Path) -> None:
    study = load_study("ptb-sample")
    grid = study_grid(study, runs=str(tmp_path))
    for run, uas in zip(grid["layernorm", "ptb"].runs, (85.0, 86.0, 87.0), strict=True):
        record(run, test={"uas": uas})
    quoting = Table(study, grid)
    text = table_markdown(quoting)
    assert "| LayerNorm | 86.00 ± 1.00 |\n| · paper | 89.12 |" in text
    assert "verdict" not in text
    assert "a training set ten times larger" in text
    assert "LayerNorm          86.00 ± 1.00             paper 89.12" in table_text(quoting)
    assert {row["verdict"] for row in csv.DictReader(io.StringIO(table_csv(quoting)))} == {""}


def test_of_a_budget_the_best_by_validation_is_shown_and_named(tmp_path: Path) -> None:
    fair = load_study("fair")
    study = fair.model_copy(
        update={"rows": {"adanorm": fair.rows["adanorm"]}, "columns": ["rt"], "seeds": [1, 2]}
    )
    grid = study_grid(study, runs=str(tmp_path))
    low, middle, high = (candidate.runs for candidate in grid["adanorm", "rt"].candidates)
    assert [runs[0].training.lr for runs in (low, middle, high)] == [0.0003, 0.001, 0.003]
    for runs, valid, test in ((low, (70.0, 71.0), 99.0), (middle, (72.0, 73.0), 60.0)):
        for run, accuracy in zip(runs, valid, strict=True):
            record(run, valid={"accuracy": accuracy}, test={"accuracy": test})
    record(high[0], valid={"accuracy": 80.0}, test={"accuracy": 70.0})
    lacking = Table(study, grid)
    assert lacking.ours("adanorm", "rt") == "60.00 ± 0.00 [lr=0.001, of 2/3 done]"
    assert "| AdaNorm | training.lr=0.003 | 80.00, 1/2 seeds |" in table_markdown(lacking)
    record(high[1], status="diverged", valid=None, test=None)
    whole = Table(study, grid)
    assert whole.ours("adanorm", "rt") == "60.00 ± 0.00 [lr=0.001]"
    assert "training.lr=0.0003, training.lr=0.001, training.lr=0.003. Shown is the best" in table_markdown(
        whole
    )
    (row,) = csv.DictReader(io.StringIO(table_csv(whole)))
    assert (row["chosen"], row["mean"]) == ("lr=0.001", "60.0000")
    _, tried = table_markdown(whole).split("setting that was tried\n\n")
    assert tried.splitlines()[2:5] == [
        "| AdaNorm | training.lr=0.0003 | 70.50 |",
        "| AdaNorm | training.lr=0.001 | **72.50** |",
        "| AdaNorm | training.lr=0.003 | 80.00, 1 diverged |",
    ]
    page = report_page({"fair": whole}, ())
    assert "5 runs done, 1 diverged" in page, "those of settings that were not chosen are on record too"
    assert len(re.findall(r'<td><a( class="best")? href="#runs-', page)) == 3


def test_a_study_that_varies_settings_is_not_compared_with_the_paper(tmp_path: Path) -> None:
    study = load_study("ablation-k").model_copy(update={"scale": "paper"})
    grid = study_grid(study, runs=str(tmp_path))
    for accuracy, run in zip((99.3, 99.4, 99.5), grid["k=0.3", "mnist"].runs, strict=True):
        record(run, **score(accuracy))
    text = table_markdown(Table(study, grid))
    assert "| k=0.3 | - | - | - | - | 99.40 ± 0.10 | - |" in text
    assert "consistent" not in text
    assert "99.35" not in text


def test_a_task_the_paper_has_no_number_of_fits_into_every_table(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(
        "title: t\nrows: [layernorm, adanorm]\ncolumns: [gaussian, cifar10]\nscale: paper\nseeds: [1, 2]\n"
        "improvements: [[layernorm, adanorm]]\n"
    )
    study = load_study(str(own))
    grid = study_grid(study, runs=str(tmp_path / "runs"))
    for norm, losses in (("layernorm", (0.0301, 0.0303)), ("adanorm", (0.0101, 0.0101))):
        for run, loss in zip(grid[norm, "gaussian"].runs, losses, strict=True):
            record(run, test={"loss": loss}, valid={"loss": loss})
    table = Table(study, grid)
    assert table.ours("layernorm", "gaussian") == "0.0302 ± 0.0001"
    assert table.improvement("layernorm", "adanorm", "gaussian") == ("+0.0201", "-")  # less is better
    assert table.best("gaussian") == "adanorm"
    assert table.verdict("adanorm", "gaussian") == table.paper("adanorm", "gaussian") == ""
    text = table_markdown(table)
    assert "| Model | Gaussian (loss) | CIFAR-10 (accuracy) |" in text
    assert "| AdaNorm | **0.0101 ± 0.0000** | - |" in text
    assert "Gaussian, test loss, paper\n  LayerNorm          0.0302 ± 0.0001\n" in table_text(table)
    assert not task_metric("gaussian").higher_is_better
    assert task_metric("cifar10").higher_is_better


def test_a_table_says_which_of_its_runs_were_not_computed_alike(tmp_path: Path) -> None:
    study = load_study("table4").model_copy(update={"columns": ["rt"], "seeds": [*range(1, 8)]})
    grid = study_grid(study, runs=str(tmp_path))
    computed = {"packages": {"torch": "2.13.0"}, "device": "AMD EPYC", "norm_backend": "fused: numba"}
    for (row, _), plan in grid.items():
        for run in plan.runs:
            record(run)
            is_newer = row == "adanorm" and run.seed in {2, 5, 6, 7}
            version = {"numerics_version": 2} if is_newer else {}
            (run.folder() / "environment.json").write_text(json.dumps(computed | version))
    text = table_markdown(Table(study, grid))
    assert "more than one arithmetic: RT 2 kinds." in text
    for plan in grid.values():
        for run in plan.runs:
            (run.folder() / "environment.json").write_text(json.dumps(computed))
    assert "kinds." not in table_markdown(Table(study, grid))


def test_the_committed_tables_are_those_of_the_committed_records(
    committed_runs: Path, tmp_path: Path
) -> None:
    claims = claims_markdown(claim_results(str(committed_runs)))
    assert (PROJECT / "results" / "tables" / "claims.md").read_text() == claims, "run `make tables`"
    found = findings_markdown(str(committed_runs))
    assert (PROJECT / "results" / "tables" / "findings.md").read_text() == found, "run `make tables`"
    epochs = epoch_choice_markdown(epoch_choices(str(committed_runs)))
    assert (PROJECT / "results" / "tables" / "epoch-choice.md").read_text() == epochs, "run `make tables`"
    columns = reproducibility_markdown(agreements(str(committed_runs)))
    assert (PROJECT / "results" / "tables" / "reproducibility.md").read_text() == columns, "run `make tables`"
    for name in choices("study"):
        study = load_study(name)
        table = Table(study, study_grid(study, runs=str(committed_runs)))
        for path in write_table(table, name, tmp_path):
            committed = PROJECT / "results" / "tables" / path.name
            assert committed.read_text() == path.read_text(), f"run `make tables`: {path.name} is stale"
