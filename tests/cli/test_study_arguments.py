"""Which table a command line of a study is about, and which row of it an address names."""

from __future__ import annotations

from pathlib import Path

import pytest

from adanorm.cli.command import folder_of, parse_arguments
from adanorm.cli.study import USAGE
from adanorm.cli.study_arguments import chosen_study
from adanorm.cli.trace import trace
from adanorm.config.paths import CONF, RUNS
from adanorm.studies.grid import plan_runs, study_grid
from adanorm.studies.study import Study, load_study


def chosen(*arguments: str) -> tuple[Study, str]:
    return chosen_study(parse_arguments("study", USAGE, arguments))[1:]


def table_of(*arguments: str) -> str:
    return chosen(*arguments)[1]


@pytest.mark.parametrize("arguments", [(), ("scale=paper",), ("seeds=1,2,3",), ("seeds=3,1,2",)])
def test_a_study_as_it_is_written_is_its_own_table(arguments: tuple[str, ...]) -> None:
    assert table_of("table1", *arguments) == "table1"
    assert table_of(str(CONF / "study" / "table1.yaml"), *arguments) == "table1"


def test_other_seeds_scales_or_files_are_other_tables(tmp_path: Path) -> None:
    assert table_of("table1", "seeds=1") == "table1-seeds-1"
    assert table_of("table1", "scale=smoke", "seeds=1,2") == "table1-smoke-seeds-1-2"
    many = [table_of("table1", f"seeds={','.join(map(str, range(start, 99)))}") for start in (1, 2)]
    assert len({"table1", *many}) == 3
    assert max(map(len, many)) < 100
    own = tmp_path / "table1.yaml"
    own.write_text((CONF / "study" / "table1.yaml").read_text())
    assert table_of(str(own)) == "table1-own"
    own = own.rename(tmp_path / "claims.yaml")
    assert table_of(str(own)) == "claims-own", "results/tables/claims.md is no study's"
    assert table_of(str(own.rename(tmp_path / "mine.yaml")), "scale=mini") == "mine-own-mini"


def test_a_part_of_a_studys_tasks_is_another_table_without_the_rule_for_all_of_them() -> None:
    whole = load_study("heirs")
    assert whole.rule is not None
    assert chosen("heirs", "task=mnist,sst5,rt")[0] == whole  # in any order
    part, _ = chosen("heirs", "task=mnist,rt")
    assert part == whole.model_copy(update={"columns": ["rt", "mnist"], "rule": None})
    assert table_of("heirs", "tasks=mnist,rt", "seeds=1") == "heirs-rt-mnist-seeds-1"
    every, some = ({run.name for run in plan_runs(study_grid(study))} for study in (whole, part))
    assert some == {name for name in every if name.startswith(("rt ", "mnist "))}


def test_of_a_part_of_the_tasks_rows_without_runs_there_are_left_out() -> None:
    whole = load_study("ablation-placement")
    only = [label for label, row in whole.rows.items() if row.only is not None]
    assert only
    part, _ = chosen("ablation-placement", "task=rt")
    assert list(part.rows) == [label for label in whole.rows if label not in only]
    assert chosen("ablation-placement", "task=de-en")[0].rows == whole.rows


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ("rt,enwik8", "task=enwik8: not a column of the study: choose from rt, sst5, mnist"),
        ("rt,", "task=: not a column of the study: choose from rt, sst5, mnist"),
        ("rt,rt", "task=rt,rt: rt is named twice"),
    ],
)
def test_a_task_that_is_not_the_studys_is_named_with_those_that_are(tasks: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        chosen("heirs", f"task={tasks}")


def test_the_repositorys_own_folder_of_runs_is_no_folder_of_the_users(tmp_path: Path) -> None:
    assert folder_of("") is None
    assert folder_of(str(RUNS)) is None
    assert folder_of(str(tmp_path / "x")) == str(tmp_path / "x")


OWN = """title: t
rows: {k: {norm: adanorm}, K: {norm: layernorm}, "K/2": {norm: none}}
columns: [rt]
scale: smoke
seeds: [1]
"""


@pytest.mark.parametrize(
    ("row", "norm"), [("k", "adanorm"), ("K", "layernorm"), ("K/2", "none"), ("k/2", "none")]
)
def test_a_row_is_found_as_it_is_written_and_then_in_any_case(tmp_path: Path, row: str, norm: str) -> None:
    (tmp_path / "own.yaml").write_text(OWN)
    lines = trace(f"{tmp_path / 'own.yaml'}/{row}/RT")
    assert lines[-1].split()[:4] == ["adanorm", "run", "task=rt", f"norm={norm}"]
