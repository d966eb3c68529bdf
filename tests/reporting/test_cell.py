"""Cells and tables from records made by hand, with known answers."""

import json
import re
from filecmp import cmp
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from adanorm.analyses.spec import (
    analysis_grid,
    analysis_results,
    load_analysis,
)
from adanorm.config.compose import compose_experiment
from adanorm.config.experiment import Experiment
from adanorm.config.paths import PROJECT, choices
from adanorm.config.titles import task_metric, title
from adanorm.records.lines import RECORD
from adanorm.records.published import published, published_tasks
from adanorm.records.reader import runs_on_record
from adanorm.reporting.report import read_tables, report_page
from adanorm.reporting.tables.analysis import write_analysis
from adanorm.reporting.tables.claims import claims_markdown
from adanorm.reporting.tables.findings import (
    findings_markdown,
    predictions_markdown,
)
from adanorm.reporting.tables.formats import (
    table_csv,
    table_latex,
    table_markdown,
    table_text,
    write_table,
)
from adanorm.reporting.tables.notes import notes
from adanorm.reporting.tables.table import Table
from adanorm.stats.variance import Spread
from adanorm.studies.study import Study, load_study, study_grid
from adanorm.verdicts.cell import cell
from adanorm.verdicts.claims import claim_results, submission_results
from adanorm.verdicts.preregistration import preregistration
from tests.reporting.records import (
    record,
    rows_of,
    run_in,
    score,
    scored,
)

SPREAD = Spread(1.0, 14)  # of a run, pooled over seven norms of three seeds


@pytest.fixture
def runs(tmp_path: Path) -> list[Experiment]:
    """Three seeds of RT under LayerNorm, for which the paper has 77.21."""
    return [
        run_in(
            tmp_path,
            "task=rt",
            "norm=layernorm",
            seed=seed,
        )
        for seed in (1, 2, 3)
    ]


def test_the_papers_numbers_are_typed_in_full_under_the_tasks_metrics() -> None:
    assert published_tasks() == [
        "en-de",
        "de-en",
        "en-vi",
        "enwik8",
        "rt",
        "sst5",
        "mnist",
        "ptb",
    ]
    addresses = product(published_tasks(), preregistration().norms)
    numbers: Any = {address: published(*address) for address in addresses}
    assert {number.metric == task_metric(task).label for (task, _), number in numbers.items()} == {
        True
    }
    assert (
        numbers["mnist", "adanorm"].value,
        numbers["en-de", "none"].value,
    ) == (99.35, None)
    of_rt = {n for (task, n), number in numbers.items() if task == "rt" and not number.confirmed}
    assert of_rt == {"detach-mean", "detach-var"}


@pytest.mark.parametrize(
    ("accuracies", "text", "verdict"),
    [
        ([], "-", "not run"),
        ([76.0], "76.00 (1/3 seeds)", "consistent (80 %)"),
        (
            [76.0, 77.0, 78.0],
            "77.00 ± 1.00",
            "consistent (57 %)",
        ),  # 77.21 lies above 57 % of runs
        (
            [76.0, 77.0, 78.0, 81.0],
            "78.00 ± 2.16",
            "consistent (25 %)",
        ),  # a seed beyond those planned
        (
            [48.0, 48.6, 76.0],
            "57.53 ± 16.00, did not learn (2/3)",
            "did not learn (2/3)",
        ),  # majority: 48.67
        # The verdict follows the spread of the task, and not the cell's own.
        ([75.99, 76.0, 76.01], "76.00 ± 0.01", "consistent (84 %)"),
        ([74.0, 76.0, 78.0], "76.00 ± 2.00", "consistent (84 %)"),
        ([75.2, 75.3, 75.4], "75.30 ± 0.10", "inconclusive (94 %)"),
        ([74.1, 74.2, 74.3], "74.20 ± 0.10", "differs (99 %)"),
        ([80.4, 80.5, 80.6], "80.50 ± 0.10", "differs (1 %)"),
    ],
)
def test_a_cell_shows_mean_deviation_and_where_the_papers_number_lies(
    runs: list[Experiment],
    accuracies: list[float],
    text: str,
    verdict: str,
) -> None:
    for seed, accuracy in enumerate(accuracies, 1):
        record(runs[0].model_copy(update={"seed": seed}), **score(accuracy))
    result = cell(runs)
    assert (result.text, result.verdict(SPREAD)) == (text, verdict)
    learned = {seed: one for seed, one in enumerate(accuracies, 1) if one > 48.67}
    assert result.by_seed == learned, "what did not learn is compared with nothing"


def test_divergence_and_failure_are_shown(
    runs: list[Experiment],
) -> None:
    record(
        runs[0],
        status="diverged",
        valid=None,
        test=None,
    )
    record(runs[1], **score(76.0))
    assert (cell(runs).text, cell(runs).verdict(SPREAD)) == (
        "Diverge (1/2)",
        "differs: diverges 1/2",
    )
    record(runs[1], status="failed")
    (runs[0].folder() / RECORD).unlink()
    assert cell(runs).text == "failed"


def test_the_tasks_own_metric_decides_whether_a_run_learned_whichever_is_shown(
    tmp_path: Path,
) -> None:
    mini, paper = (
        run_in(
            tmp_path,
            "task=ptb",
            "norm=adanorm",
            f"scale={s}",
        )
        for s in ("mini", "paper")
    )
    for run in (mini, paper):
        record(run, valid={"uas": 90.0}, test={"uas": 90.0, "uas_all": 1.0})  # below every baseline
    result = cell([mini], metric="uas_all")
    assert (result.metric, result.unlearned) == ("uas_all", ())
    assert (
        cell([paper]).paper is None,
        cell([paper], metric="uas_all").paper,
    ) == (False, None)


def test_seeds_that_chose_settings_are_no_evidence(
    runs: list[Experiment],
) -> None:
    choosing, last, fresh = (runs[0].model_copy(update={"seed": seed}) for seed in (101, 40, 41))
    for run, accuracy in ((runs[0], 76.0), (choosing, 90.0)):
        record(run, **score(accuracy))
    assert (cell(runs).scores, cell([choosing]).scores) == (
        [76.0],
        [90.0],
    )
    for run in (last, fresh):
        record(run, **score(77.0))
    seeds = {}
    for run in (runs[0], last, fresh, choosing):
        seeds[run.seed] = [sibling.seed for sibling in runs_on_record(run)]
    assert seeds == {1: [1, 40], 40: [1, 40], 41: [41], 101: [101]}, (
        "no plan decides what another has"
    )


def test_a_title_is_that_of_the_configuration_and_no_part_of_a_run() -> None:
    titles = {
        "adanorm": "AdaNorm",
        "none": "w/o Norm",
        "enwik8-gru": "Enwiki8, GRU",
        "k=0.2": "k=0.2",
    }
    assert {name: title(name) for name in titles} == titles
    names = [*choices("norm"), *choices("task")]
    assert len({title(name) for name in names}) == len(names), "no two have one"
    run = compose_experiment(["task=rt", "norm=adanorm"])
    renamed = compose_experiment(
        [
            "task=rt",
            "norm=adanorm",
            "norm.title=Ada",
            "task.title=Reviews",
        ]
    )
    assert (renamed, renamed.digest) == (run, run.digest)
    assert "title" not in str(run.identity)


def fields_of(line: str) -> list[str]:
    return [field.strip() for field in line.strip("|").split("|")]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    accuracies = {
        "layernorm": (99.1, 99.2, 99.3),
        "adanorm": (99.3, 99.3, 99.3),
    }
    return scored(
        "table4",
        tmp_path,
        {(norm, "mnist"): of_norm for norm, of_norm in accuracies.items()},
    )


def test_a_table_has_the_papers_layout(table: Table) -> None:
    lines = table_markdown(table).partition("\n## ")[0].splitlines()
    header, *body = [fields_of(line) for line in lines if "|" in line]
    assert (header[0], header[7]) == ("Model", "MNIST (accuracy)")
    cells, norm = {}, ""
    for row in body:
        label = row[0]
        if not label.startswith("·"):
            norm = label
        cells[norm if label == norm else f"{norm}{label}"] = row
    assert [cells[row][7] for row in ("LayerNorm", "LayerNorm· paper")] == ["99.20 ± 0.10", "99.13"]
    assert cells["LayerNorm"][1] == "-"
    leads = [cells[f"AdaNorm over LayerNorm{row}"][7] for row in ("", "· paper")]
    assert leads == ["+0.10", "+0.22"]
    rows = [line for line in table_latex(table).splitlines() if line.endswith(r"\\")]
    assert {row.count("&") for row in rows} == {8}
    assert r"99.20 $\pm$ 0.10" in table_latex(table)


def test_adding_seed_4_of_one_cell_changes_the_tables(
    table: Table,
) -> None:
    run = table.grid["adanorm", "mnist"].runs[0]
    record(run.model_copy(update={"seed": 4}), **score(99.7))
    after = Table(table.study, table.grid)
    for text in (
        table_markdown(after),
        table_latex(after).replace(r"$\pm$", "±"),
        table_text(after),
    ):
        assert "99.40 ± 0.20" in text
    assert [row["seeds"] for row in rows_of(table_csv(after)) if row["scores"]] == [
        "1 2 3",
        "1 2 3 4",
    ]
    assert "planned seeds: 1, 2, 3. These cells have more: AdaNorm on MNIST 4." in table_markdown(
        after
    )
    assert "These cells have more" not in table_markdown(table)
    assert max(map(len, table_text(table).splitlines())) <= 80
    assert "no runs yet: En-De, De-En" in table_text(table)


def test_norms_over_channels_and_runs_in_another_precision_are_marked(
    tmp_path: Path,
) -> None:
    scores = {(norm, "mnist"): [98.0] for norm in ("layernorm", "batchnorm")}
    table = scored("beyond", tmp_path, scores)
    assert table.ours("batchnorm", "mnist") == "98.00 (1/3 seeds) [over channels]"
    assert table.ours("layernorm", "mnist") == "98.00 (1/3 seeds)"
    study = load_study("beyond").model_copy(update={"overrides": ("precision=tf32",)})
    assert scored(study, tmp_path, scores).ours("layernorm", "mnist") == "98.00 (1/3 seeds) [tf32]"


def test_fewer_bits_are_the_best_and_an_improvement(tmp_path: Path, table: Table) -> None:
    bits = {
        "layernorm": (1.06, 1.07, 1.08),
        "adanorm": (0.98, 0.99, 0.99),
    }
    of_bits = scored(
        "table4",
        tmp_path,
        {(norm, "enwik8"): of_norm for norm, of_norm in bits.items()},
    )
    assert of_bits.columns["enwik8"].best == "adanorm"
    assert of_bits.improvement("layernorm", "adanorm", "enwik8") == (
        "+0.08",
        "+0.00",
    )
    assert table.improvement("layernorm", "adanorm", "enwik8") == (
        "-",
        "+0.00",
    )
    second = scored("table2", Path("nowhere"), {})
    assert second.improvement("none", "detachnorm", "enwik8") == (
        "-",
        "-0.08",
    )
    assert second.improvement("none", "detachnorm", "en-de") == (
        "-",
        "-",
    )  # both diverge


def test_the_csv_holds_every_cell_unrounded_with_the_seeds_of_its_scores(
    table: Table,
) -> None:
    record(table.grid["adanorm", "mnist"].runs[0], status="failed")
    curve = [{"valid_bpc": x} for x in (1.5, 1.4, 1.3, 1.2, 1.1, 1.0)]
    record(
        table.grid["adanorm", "enwik8"].runs[0],
        rows=curve,
        test={"bpc": 1.0},
    )
    rows = {
        (row["task"], row["norm"]): row
        for row in rows_of(table_csv(Table(table.study, table.grid)))
    }
    assert len(rows) == 2 * 8
    mnist = {
        "scores": "99.1000 99.2000 99.3000",
        "mean": "99.2000",
        "paper": "99.13",
        "seeds": "1 2 3",
    }
    assert (mnist | {"unlearned": "", "baseline": "11.3500"}).items() < rows[
        "mnist", "layernorm"
    ].items()
    assert rows["mnist", "layernorm"]["verdict"].startswith("consistent (")
    failed = {
        "seeds": "2 3",
        "scores": "99.3000 99.3000",
        "failed": "1",
    }
    assert failed.items() < rows["mnist", "adanorm"].items()
    assert {
        "valid_best": "1.0000",
        "valid_level": "1.0500",
    }.items() < rows["enwik8", "adanorm"].items()
    assert "| AdaNorm | 1.00, 1.05 |" in table_markdown(Table(table.study, table.grid))


def test_a_cell_has_the_newest_plans_seeds_and_the_first_plans_stand_beside(
    tmp_path: Path,
) -> None:
    first = [99.0, 99.1, 99.2]
    table = scored("table4", tmp_path, {("layernorm", "mnist"): first, ("adanorm", "mnist"): first})
    assert not table.beside
    of_norms = {"layernorm": (99.3, 99.4, 99.5, 99.6), "adanorm": (99.4, 99.5, 99.6, 99.7)}
    for norm, fresh in of_norms.items():
        for seed, accuracy in enumerate(fresh, 41):
            run = table.grid[norm, "mnist"].runs[0].model_copy(update={"seed": seed})
            record(run, **score(accuracy))
    rows = rows_of(table_csv(Table(table.study, table.grid)))
    (row,) = [row for row in rows if (row["task"], row["norm"]) == ("mnist", "adanorm")]
    assert (row["seeds"], row["mean"]) == ("41 42 43 44", "99.5500")
    assert row["first_plan"] == "99.0000 99.1000 99.2000"
    after = Table(table.study, table.grid)
    assert after.ours("layernorm", "mnist") == "99.45 ± 0.13 (4 seeds)"
    assert after.text_beside("layernorm", "mnist").startswith("99.10 ± 0.10 (3 seeds): ")
    assert after.verdict("layernorm", "mnist") != table.verdict("layernorm", "mnist")
    assert after.improvement("layernorm", "adanorm", "mnist") == ("+0.10", "+0.22")
    assert after.improvement_beside("layernorm", "adanorm", "mnist") == "+0.00"
    text = table_markdown(after)
    assert "· first plan" in text
    assert "· fresh seeds" not in text


def test_a_norm_without_fresh_seeds_is_compared_by_the_first_plan(tmp_path: Path) -> None:
    first = {"layernorm": (99.0, 99.1, 99.2), "adanorm": (99.1, 99.2, 99.3)}
    table = scored("table4", tmp_path, {(norm, "mnist"): of for norm, of in first.items()})
    run = table.grid["layernorm", "mnist"].runs[0].model_copy(update={"seed": 41})
    record(run, **score(97.0))
    after = Table(table.study, table.grid)
    assert after.improvement("layernorm", "adanorm", "mnist")[0] == "+0.10"
    assert after.improvement_beside("layernorm", "adanorm", "mnist") == ""


def test_a_study_with_a_rule_shows_its_own_seeds_and_fresh_ones_beside(tmp_path: Path) -> None:
    scores = [75.0, 75.5, 76.0]
    table = scored("k-paper", tmp_path, {("k=0.1", "rt"): scores})
    run = table.grid["k=0.1", "rt"].runs[0].model_copy(update={"seed": 41})
    record(run, **score(70.0))
    after = Table(table.study, table.grid)
    assert after.ours("k=0.1", "rt") == "75.50 ± 0.50"
    assert after.text_beside("k=0.1", "rt") == "70.00 (1 seed)"
    assert "· fresh seeds" in table_markdown(after)


def test_only_the_significantly_best_norm_is_bold(
    tmp_path: Path,
) -> None:
    scores = {
        ("layernorm", "rt"): (75.0, 76.0, 77.0),
        ("adanorm", "rt"): (78.0, 79.1, 79.9),
    }
    scores |= {
        ("layernorm", "mnist"): (99.0, 99.2, 99.1),
        ("adanorm", "mnist"): (99.1, 99.2, 99.5),
    }
    table = scored("table4", tmp_path, scores)
    assert "| **79.00 ± 0.95** |" in table_markdown(table)
    assert "| 99.27 ± 0.21 |" in table_markdown(table)
    assert r"\textbf{79.00 $\pm$ 0.95}" in table_latex(table)


def test_quoted_and_unconfirmed_numbers_of_the_paper_get_no_verdict(
    tmp_path: Path,
) -> None:
    unconfirmed = table_markdown(scored("table3", Path("nowhere"), {}))
    assert all(part in unconfirmed for part in ("77.04†", "76.66 |", "no public source confirms"))
    quoting = scored(
        "ptb-sample",
        tmp_path,
        {("layernorm", "ptb"): (85.0, 86.0, 87.0)},
    )
    text = table_markdown(quoting)
    assert "| LayerNorm | 86.00 ± 1.00 |\n| · paper | 89.12 |" in text
    assert (
        "verdict" in text,
        "a training set ten times larger" in text,
    ) == (False, True)
    assert "LayerNorm          86.00 ± 1.00             paper 89.12" in table_text(quoting)
    assert {row["verdict"] for row in rows_of(table_csv(quoting))} == {""}


def of_study(tmp_path: Path, **changes: Any) -> Study:
    path = tmp_path / "own.yaml"
    values = {
        "title": "t",
        "rows": ["layernorm", "adanorm"],
        "scale": "smoke",
        "seeds": [1, 2],
        **changes,
    }
    path.write_text(json.dumps(values))
    return load_study(str(path))


@pytest.mark.parametrize(
    ("task", "metric", "goal", "label", "better"),
    [
        ("rt", "loss", "min", "loss", "+0.026"),
        ("de-en", "sacrebleu", None, "sacreBLEU", "-0.026"),
    ],
)
def test_a_table_names_and_signs_the_metric_of_its_runs_and_quotes_no_other(
    tmp_path: Path,
    task: str,
    metric: str,
    goal: str | None,
    label: str,
    better: str,
) -> None:
    row = {
        "overrides": [
            f"task.metric={metric}",
            *([f"task.goal={goal}"] if goal else []),
        ]
    }
    study = load_study("table4").model_copy(
        update={"columns": [task], "scale": "smoke", "quote": "q"}
    )
    rows = {norm: study.rows[norm].model_copy(update=row) for norm in study.rows}
    grid_scores = {
        ("layernorm", task): (0.627, 0.627),
        ("adanorm", task): (0.601, 0.601),
    }
    table = scored(study.model_copy(update={"rows": rows}), tmp_path, grid_scores)
    assert f"({label})" in table_markdown(table)
    assert table.improvement("layernorm", "adanorm", task)[0] == better
    assert {row["metric"] for row in rows_of(table_csv(table))} == {label}
    assert table.paper("adanorm", task) == ""
    assert f"test {label}" in table_text(table)


HOSTILE = r"\input{/etc/passwd} $\frac{ <img src=x> [a](b) *b* `c`"


def test_names_from_yaml_are_text_in_every_format(
    tmp_path: Path,
) -> None:
    rows = {
        HOSTILE: {"norm": "layernorm"},
        "=HYPERLINK()": {"norm": "adanorm"},
        "+1": {"norm": "none"},
    }
    study = of_study(
        tmp_path,
        title=HOSTILE,
        rows=rows,
        columns=["gaussian"],
    )
    table = scored(
        study,
        tmp_path / "runs",
        {(row, "gaussian"): (0.1, 0.2) for row in rows},
    )
    tex = table_latex(table).partition("\n")[2]
    assert r"\input" not in tex
    assert tex.count("$") == tex.count(r"\$") + 2 * tex.count(r"$\pm$")
    norms = [row["norm"] for row in rows_of(table_csv(table))]
    assert norms == [HOSTILE, "'=HYPERLINK()", "+1"], "a number is no formula"
    page, html = (
        table_markdown(table),
        report_page({"own": table}, (), {}),
    )
    for mark in ("<img", "](b)", " *b*", " `c`"):
        assert mark not in page
    assert "<img src=x" not in html
    assert "&lt;img src=x&gt; [a](b) *b* `c`" in html


def test_the_best_setting_of_a_budget_by_validation_is_shown_and_named(
    tmp_path: Path,
) -> None:
    fair = load_study("fair")
    changes = {
        "rows": {"adanorm": fair.rows["adanorm"]},
        "columns": ["rt"],
        "seeds": [1, 2],
    }
    study = fair.model_copy(update=changes)
    grid = study_grid(study, runs=str(tmp_path))
    low, middle, high = (candidate.runs for candidate in grid["adanorm", "rt"].candidates)
    assert [runs[0].training.lr for runs in (low, middle, high)] == [
        0.0003,
        0.001,
        0.003,
    ]
    for runs, valid, test in (
        (low, (70.0, 71.0), 99.0),
        (middle, (72.0, 73.0), 60.0),
    ):
        for run, accuracy in zip(runs, valid, strict=True):
            record(
                run,
                valid={"accuracy": accuracy},
                test={"accuracy": test},
            )
    record(high[0], valid={"accuracy": 80.0}, test={"accuracy": 70.0})
    lacking = Table(study, grid)
    assert lacking.ours("adanorm", "rt") == "60.00 ± 0.00 [lr=0.001, of 2/3 done]"
    assert "| AdaNorm | training.lr=0.003 | 80.00, 1/2 seeds |" in table_markdown(lacking)
    record(
        high[1],
        status="diverged",
        valid=None,
        test=None,
    )
    whole = Table(study, grid)
    assert whole.ours("adanorm", "rt") == "60.00 ± 0.00 [lr=0.001]"
    text = table_markdown(whole)
    assert (
        "training.lr=0.0003, training.lr=0.001, training.lr=0.003. The cell shows the best" in text
    )
    (row,) = rows_of(table_csv(whole))
    assert (row["chosen"], row["mean"]) == ("lr=0.001", "60.0000")
    rows_tried = text.split("setting that was tried\n\n")[1].splitlines()[2:5]
    scores = {
        "0.0003": "70.50",
        "0.001": "**72.50**",
        "0.003": "80.00, 1 diverged",
    }
    assert rows_tried == [
        f"| AdaNorm | training.lr={lr} | {score} |" for lr, score in scores.items()
    ]
    page = report_page({"fair": whole}, (), {})
    assert "5 runs done, 1 diverged" in page, (
        "those of settings that were not chosen are on record too"
    )
    assert len(re.findall(r'<td[^>]*><a( class="best")? href="#runs-', page)) == 1 + 3


def test_a_study_that_varies_settings_is_not_compared_with_the_paper(
    tmp_path: Path,
) -> None:
    study = load_study("ablation-k").model_copy(update={"scale": "paper"})
    text = table_markdown(scored(study, tmp_path, {("k=0.3", "mnist"): (99.3, 99.4, 99.5)}))
    assert "| k=0.3 | - | - | 99.40 ± 0.10 |" in text
    assert not re.search(r"consistent|99\.35", text)


def test_a_task_without_a_number_of_the_paper_fits_into_every_table(
    tmp_path: Path,
) -> None:
    improvements = [["layernorm", "adanorm"]]
    study = of_study(
        tmp_path,
        columns=["gaussian", "cifar10"],
        scale="paper",
        improvements=improvements,
    )
    losses = {
        ("layernorm", "gaussian"): (0.0301, 0.0303),
        ("adanorm", "gaussian"): (0.0101, 0.0101),
    }
    table = scored(study, tmp_path / "runs", losses)
    assert table.ours("layernorm", "gaussian") == "0.0302 ± 0.0001"
    assert table.improvement("layernorm", "adanorm", "gaussian") == (
        "+0.0201",
        "-",
    )  # less is better
    assert table.verdict("adanorm", "gaussian") == table.paper("adanorm", "gaussian") == ""
    rows = (
        "Model | Gaussian (loss) | CIFAR-10",
        "AdaNorm | **0.0101 ± 0.0000** | -",
    )
    assert all(f"| {row} " in table_markdown(table) for row in rows)


def test_a_table_says_which_of_its_runs_were_not_computed_alike(
    tmp_path: Path,
) -> None:
    study = load_study("table4").model_copy(update={"columns": ["rt"], "seeds": [1, 2]})
    grid = study_grid(study, runs=str(tmp_path))
    computed = {
        "packages": {"torch": "2.13.0"},
        "device": "AMD EPYC",
        "norm_backend": "fused: numba",
    }
    for (row, _), plan in grid.items():
        version = {"numerics_version": 2} if row == "adanorm" else {}
        for run in plan.runs:
            environment = json.dumps(computed | version).encode()
            record(run, files={"environment.json": environment})
    assert "differ in arithmetic: RT 2 kinds." in table_markdown(Table(study, grid))


def test_a_run_whose_validation_loss_still_falls_is_named(
    tmp_path: Path,
) -> None:
    norms = ["layernorm", "adanorm", "none"]
    study = of_study(
        tmp_path,
        columns=["de-en"],
        scale="small",
        seeds=[1],
        rows=norms,
    )
    grid = study_grid(study, runs=str(tmp_path / "runs"))
    for norm, last in (("layernorm", 2.499), ("adanorm", 2.4)):
        rows = [{"valid_loss": loss} for loss in (*[4.0] * 17, 2.5, 2.5, last)]
        record(grid[norm, "de-en"].runs[0], rows=rows, test={"bleu": 40.0})
    early = [{"valid_loss": 9.0}, {"valid_loss": 4.0}]
    record(
        grid["none", "de-en"].runs[0],
        rows=early,
        status="diverged",
        valid=None,
        test=None,
    )
    (line,) = [note for note in notes(Table(study, grid)) if "last tenth" in note]
    assert line == (
        "Over the last tenth of each run, the validation loss fell by at most 4.0%."
        " Still falling, by more than 1%: De-En AdaNorm (4.0%)."
    )
    rises = study_grid(study, runs=str(tmp_path / "rises"))
    losses = [{"valid_loss": loss} for loss in (4.0, 2.5, 2.501)]
    record(
        rises["layernorm", "de-en"].runs[0],
        rows=losses,
        test={"bleu": 40.0},
    )
    assert any("loss fell by at most 0.0%" in note for note in notes(Table(study, rises)))


@pytest.mark.parametrize("scale", ["mini", "small"])
def test_a_table_at_mini_alone_says_that_it_decides_no_claim(tmp_path: Path, scale: str) -> None:
    study = of_study(tmp_path, columns=["de-en"], scale=scale, seeds=[1])
    said = [note for note in notes(Table(study, study_grid(study))) if "decide no claim" in note]
    assert len(said) == (scale == "mini")


def test_settings_that_a_norm_has_at_a_scale_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "task_norm_scale").mkdir()
    for norm, rate in (
        ("adanorm", 0.003),
        ("layernorm", 0.5),
    ):  # which its runs do not have
        file = tmp_path / "task_norm_scale" / f"de-en_{norm}_small.yaml"
        file.write_text(f"norm: {{params: {{}}}}\ntraining: {{lr: {rate}}}\n")
    monkeypatch.setattr("adanorm.reporting.tables.notes.CONF", tmp_path)
    study = of_study(
        tmp_path,
        columns=["de-en"],
        scale="small",
        seeds=[1],
    )
    chosen = [note for note in notes(Table(study, study_grid(study))) if "Chosen" in note]
    assert chosen == [
        "Chosen for a norm on a task, by validation (`conf/task_norm_scale/`): AdaNorm on De-En, lr = 0.003."
    ]


@pytest.mark.records
def test_the_committed_tables_are_of_the_committed_records(
    committed_runs: Path, tmp_path: Path
) -> None:
    runs, committed = (
        str(committed_runs),
        PROJECT / "results" / "tables",
    )
    claims = claims_markdown(claim_results(runs), submission_results(runs))
    (tmp_path / "claims.md").write_text(claims)
    (tmp_path / "findings.md").write_text(findings_markdown(runs))
    (tmp_path / "predictions.md").write_text(predictions_markdown(runs))
    for name, table in read_tables(runs).items():
        write_table(table, name, tmp_path)
    for analysis in map(load_analysis, choices("analysis")):
        grid = analysis_grid(analysis, runs=runs)
        if any(analysis_results(cell) for cell in grid.values()):
            write_analysis(analysis, grid, tmp_path)
    stale = [
        path.name
        for path in tmp_path.iterdir()
        if not cmp(path, committed / path.name, shallow=False)
    ]
    assert not stale, "run `make tables`"
