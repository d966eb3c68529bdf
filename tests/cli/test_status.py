"""What a study still takes, and where; labels of any length."""

from __future__ import annotations

from pathlib import Path

import pytest

from adanorm.cli import status
from adanorm.cli.command import parse_arguments
from adanorm.config.paths import choices
from adanorm.config.titles import in_words
from adanorm.reporting.tables.formats import table_text
from adanorm.reporting.tables.table import Table
from adanorm.studies.grid import plan_runs, study_grid
from adanorm.studies.study import load_study
from tests.reporting.records import record, score

LONG = "AdaNorm behind the last layer of the encoder and nowhere else, with a larger share of the factor"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.yaml"
    path.write_text(
        f"title: t\nrows: {{{LONG!r}: {{norm: adanorm}}, LayerNorm: {{norm: layernorm}}}}\n"
        "columns: [rt, de-en]\nscale: paper\nseeds: [1]\n"
    )
    return path


def test_labels_are_cut_and_what_needs_a_gpu_is_said_with_its_hours_there(
    own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status.main(parse_arguments("status", status.USAGE, [str(own), f"runs={tmp_path}"]))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "AdaNorm behind the last..." in [line[: status.LABEL].strip() for line in lines]
    runs = [plan.runs[0] for (_, task), plan in study_grid(load_study(str(own))).items() if task == "de-en"]
    assert [run.cost.cpu_hours > 8 for run in runs] == [True, True]
    hours = sum(run.cost.cuda_hours for run in runs)
    assert lines[-1] == f"need a GPU: De-En 2 runs, about {in_words(hours)} on one"
    assert lines[-2].startswith("time left: about ")


def test_without_a_study_there_is_a_line_for_each_and_shared_runs_count_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = study_grid(load_study("table4"), runs=str(tmp_path))["adanorm", "rt"].runs[0]
    record(shared, **score(75.0))
    status.main(parse_arguments("status", status.USAGE, [f"runs={tmp_path}"]))
    printed = capsys.readouterr().out.splitlines()
    assert max(map(len, printed)) <= 80
    lines = printed[1 : 1 + len(choices("study"))]
    assert [line.split()[0] for line in lines] == choices("study")
    done = {line.split()[0] for line in lines if line.split()[1] == "1"}
    assert {"overview", "table4"} <= done
    runs = {
        run.experiment.folder()
        for name in choices("study")
        for run in plan_runs(study_grid(load_study(name), runs=str(tmp_path)))
    }
    together = f"all: {len(runs)} runs, those of several studies once: 1 done, {len(runs) - 1} missing"
    assert printed[1 + len(lines)] == together
    assert sum(int(line.split()[5].replace("-", "0")) for line in lines) > len(runs)


def test_a_long_label_has_lines_of_its_own(own: Path, tmp_path: Path) -> None:
    study = load_study(str(own)).model_copy(update={"columns": ["rt"]})
    grid = study_grid(study, runs=str(tmp_path))
    for plan in grid.values():
        record(plan.runs[0], **score(75.0))
    lines = table_text(Table(study, grid)).splitlines()
    assert max(map(len, lines)) <= 80
    assert " ".join(" ".join(lines[2:4]).split()) == LONG
    assert lines[4].index("75.00") == lines[5].index("75.00")
