"""Which table a command line of a study is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from adanorm.cli.command import parse_arguments
from adanorm.cli.study import USAGE
from adanorm.cli.study_arguments import chosen_study
from adanorm.cli.values import folder_of
from adanorm.config.paths import CONF, RUNS


def table_of(*arguments: str) -> str:
    return chosen_study(parse_arguments("study", USAGE, arguments)).table


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
    assert table_of(str(own.rename(tmp_path / "mine.yaml"))) == "mine"


def test_the_repositorys_own_folder_of_runs_is_no_folder_of_the_users(tmp_path: Path) -> None:
    assert folder_of("") is None
    assert folder_of(str(RUNS)) is None
    assert folder_of(str(tmp_path / "x")) == str(tmp_path / "x")
