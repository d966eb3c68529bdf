"""The table that a study's command line makes, the row that an address names, and what is left to run."""

import re
from pathlib import Path

import pytest

from adanorm.cli import status, study
from adanorm.cli.command import folder_of, parse_arguments
from adanorm.cli.study import USAGE
from adanorm.cli.study_arguments import chosen_study
from adanorm.cli.trace import USAGE as TRACE
from adanorm.cli.trace import trace
from adanorm.config.paths import CONF, RUNS, choices
from adanorm.config.titles import in_words
from adanorm.records.environment import usable_devices
from adanorm.reporting.tables.formats import table_text
from adanorm.reporting.tables.table import Table
from adanorm.studies.study import Study, load_study, plan_runs, study_grid
from tests.reporting.records import record, score


def chosen(*arguments: str) -> tuple[Study, str]:
    return chosen_study(parse_arguments("study", USAGE, arguments))[1:]


def table_of(*arguments: str) -> str:
    return chosen(*arguments)[1]


def test_another_precision_makes_other_runs_and_a_table_of_its_own() -> None:
    study, table = chosen("table1", "task=rt", "precision=bf16")
    assert table == "table1-rt-bf16"
    runs = [run.experiment for run in plan_runs(study_grid(study))]
    assert {run.precision for run in runs} == {"bf16"}
    assert not study.varies, "so the paper's numbers stand beside them"
    with pytest.raises(ValueError, match="unknown precision 'fp16'"):
        chosen("table1", "precision=fp16")


@pytest.mark.parametrize("arguments", [(), ("scale=paper",), ("seeds=1,2,3",), ("seeds=3,1,2",)])
def test_a_study_without_changes_makes_the_table_of_its_name(arguments: tuple[str, ...]) -> None:
    assert table_of("table1", *arguments) == "table1"
    assert table_of(str(CONF / "study" / "table1.yaml"), *arguments) == "table1"


def test_other_seeds_scales_or_files_make_other_tables(tmp_path: Path) -> None:
    assert table_of("table1", "seeds=1") == "table1-seeds-1"
    assert table_of("table1", "scale=smoke", "seeds=1,2") == "table1-smoke-seeds-1-2"
    many = [table_of("table1", f"seeds={','.join(map(str, range(start, 41)))}") for start in (1, 2)]
    assert len({"table1", *many}) == 3
    assert max(map(len, many)) < 100
    study_file = tmp_path / "table1.yaml"
    study_file.write_text((CONF / "study" / "table1.yaml").read_text())
    assert table_of(str(study_file)) == "table1-own"
    study_file = study_file.rename(tmp_path / "claims.yaml")
    assert table_of(str(study_file)) == "claims-own", "results/tables/claims.md is no study's"
    assert table_of(str(study_file.rename(tmp_path / "mine.yaml")), "scale=mini") == "mine-own-mini"


@pytest.mark.parametrize(
    ("seeds", "named"),
    [
        ("1,101", "1, 101"),
        ("28,29,46,47", "28, 46"),
        ("60,101", "60, 101"),
        ("103,201", "103, 201"),  # tries of a study and of a trial
    ],
)
def test_seeds_of_two_plans_or_series_are_in_no_study_together(
    seeds: str, named: str, tmp_path: Path
) -> None:
    message = f"seeds {named}: of several series"
    with pytest.raises(ValueError, match=message):
        chosen("table1", f"seeds={seeds}")
    study_file = tmp_path / "own.yaml"
    study_file.write_text(f"title: t\nrows: [none]\ncolumns: [rt]\nscale: mini\nseeds: [{seeds}]\n")
    with pytest.raises(ValueError, match=message):
        load_study(str(study_file))


def test_some_of_a_studys_tasks_make_another_table_without_the_rule() -> None:
    whole = load_study("heirs")
    assert whole.rule is not None
    assert chosen("heirs", "task=mnist,sst5,rt")[0] == whole  # in any order
    part, _ = chosen("heirs", "task=mnist,rt")
    assert part == whole.model_copy(update={"columns": ["rt", "mnist"], "rule": None})
    assert table_of("heirs", "tasks=mnist,rt", "seeds=1") == "heirs-rt-mnist-seeds-1"
    every, some = ({run.name for run in plan_runs(study_grid(study))} for study in (whole, part))
    assert some == {name for name in every if name.startswith(("rt ", "mnist "))}


def test_rows_without_runs_on_the_chosen_tasks_are_left_out() -> None:
    whole = load_study("ablation-placement")
    only = [label for label, row in whole.rows.items() if row.only is not None]
    assert only
    part, _ = chosen("ablation-placement", "task=rt")
    assert list(part.rows) == [label for label in whole.rows if label not in only]
    assert chosen("ablation-placement", "task=de-en")[0].rows == whole.rows


def test_the_repositorys_folder_of_runs_counts_as_the_default(tmp_path: Path) -> None:
    assert folder_of("") is None
    assert folder_of(str(RUNS)) is None
    assert folder_of(str(tmp_path / "x")) == str(tmp_path / "x")


IN_ANY_CASE = """title: t
rows: {k: {norm: adanorm}, K: {norm: layernorm}, "K/2": {norm: none}, "k=0.2": {norm: rmsnorm}}
columns: [rt]
scale: smoke
seeds: [1]
"""


@pytest.mark.parametrize(
    ("row", "norm"),
    [("k", "adanorm"), ("K", "layernorm"), ("K/2", "none"), ("k/2", "none"), ("K=0.2", "rmsnorm")],
)
def test_a_row_is_found_as_it_is_written_and_then_in_any_case(
    tmp_path: Path, row: str, norm: str
) -> None:
    (tmp_path / "own.yaml").write_text(IN_ANY_CASE)
    named = parse_arguments(
        "trace", TRACE, [f"{tmp_path / 'own.yaml'}/{row}/RT", "runs=runs"]
    ).names
    lines = trace(*named)
    assert lines[-1].split()[:4] == ["adanorm", "run", "task=rt", f"norm={norm}"]


def test_a_cell_of_a_folder_of_runs_is_traced_there(tmp_path: Path) -> None:
    study, runs = tmp_path / "own.yaml", tmp_path / "runs"
    study.write_text("title: t\nrows: [adanorm]\ncolumns: [rt]\nscale: mini\nseeds: [71, 72]\n")
    (plan,) = study_grid(load_study(str(study)), runs=str(runs)).values()
    record(plan.runs[0], **score(70.0))
    lines = trace(f"{study}/adanorm/rt", str(runs))
    assert "seed 71: test accuracy 70.0000 at update" in "\n".join(lines)
    assert "committed here" not in "\n".join(lines)
    assert lines[-1].endswith(f"seed=72 runs={runs}"), "what makes the run that is missing there"


LONG = "AdaNorm behind the last layer of the encoder and nowhere else, with a larger share of the factor"


@pytest.fixture
def study_file(tmp_path: Path) -> Path:
    path = tmp_path / "own.yaml"
    path.write_text(
        f"title: t\nrows: {{{LONG!r}: {{norm: adanorm}}, LayerNorm: {{norm: layernorm}}}}\n"
        "columns: [rt, de-en]\nscale: paper\nseeds: [1]\n"
    )
    return path


def test_status_cuts_labels_and_names_the_runs_that_need_a_gpu_with_their_hours(
    study_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status.main(parse_arguments("status", status.USAGE, [str(study_file), f"runs={tmp_path}"]))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "AdaNorm behind the last..." in [line[: status.LABEL].strip() for line in lines]
    runs = [
        plan.runs[0]
        for (_, task), plan in study_grid(load_study(str(study_file))).items()
        if task == "de-en"
    ]
    assert [run.cost.cpu_hours > 8 for run in runs] == [True, True]
    hours = sum(run.cost.cuda_hours for run in runs)
    assert lines[-1] == f"need a GPU: De-En 2 runs, about {in_words(hours)} on one"
    assert lines[-2].startswith("time left: about ")


def test_status_of_all_studies_has_one_line_per_study_and_counts_shared_runs_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = study_grid(load_study("table4"), runs=str(tmp_path))["adanorm", "rt"].runs[0]
    record(shared, **score(75.0))
    status.main(parse_arguments("status", status.USAGE, [f"runs={tmp_path}"]))
    printed = capsys.readouterr().out.splitlines()
    assert max(map(len, printed)) <= 80
    (end,) = (number for number, line in enumerate(printed) if line.startswith("all: "))
    # A long name has a line of its own.
    lines = re.sub(r"\n +", " ", "\n".join(printed[1:end])).splitlines()
    assert [line.split()[0] for line in lines] == [*choices("study")]
    done = {line.split()[0] for line in lines if line.split()[1] == "1"}
    assert {"overview", "table4"} <= done
    runs = {
        run.experiment.folder()
        for name in choices("study")
        for run in plan_runs(study_grid(load_study(name), runs=str(tmp_path)))
    }
    together = (
        f"all: {len(runs)} runs, those of several studies once: 1 done, {len(runs) - 1} missing"
    )
    assert printed[end] == together
    assert sum(int(line.split()[5].replace("-", "0")) for line in lines) > len(runs)


def test_a_long_label_has_lines_of_its_own(study_file: Path, tmp_path: Path) -> None:
    study = load_study(str(study_file)).model_copy(update={"columns": ["rt"]})
    grid = study_grid(study, runs=str(tmp_path))
    for plan in grid.values():
        record(plan.runs[0], **score(75.0))
    lines = table_text(Table(study, grid)).splitlines()
    assert max(map(len, lines)) <= 80
    assert " ".join(" ".join(lines[2:4]).split()) == LONG
    assert lines[4].index("75.00") == lines[5].index("75.00")


def started(*arguments: str) -> int:
    return study.main(parse_arguments("study", study.USAGE, [*arguments]))


def test_a_study_checks_its_data_once_and_writes_no_table_where_nothing_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    runs, nowhere = tmp_path / "runs", [f"data.cache={tmp_path}", "data.mirror=/nowhere"]
    with pytest.raises(ValueError, match=r"^rt: \S+ cannot be had .*; name a mirror"):
        started("table4", "task=rt", "seeds=91,92", f"runs={runs}", *nowhere, "device=cpu")
    assert not runs.exists()


@pytest.mark.skipif(usable_devices() > 0, reason="a GPU runs them")
def test_a_study_says_the_hours_of_a_cpu_and_starts_no_runs_that_need_a_gpu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs"
    with pytest.raises(ValueError, match=r"de-en at scale paper: .* 25 days .*device=cpu"):
        started("table4", "task=de-en", f"runs={runs}", "workers=2")
    assert "about 75 days on CPU" in capsys.readouterr().out
    assert not runs.exists()
