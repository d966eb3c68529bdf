"""The benchmarks' harness: who goes first, what a ratio is, what a row says."""

from __future__ import annotations

import csv
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

from adanorm.config.paths import PROJECT
from adanorm.reporting.tables.table import Table
from adanorm.studies.grid import study_grid
from adanorm.studies.study import load_study
from scripts.benchmarks import norms
from scripts.benchmarks.harness import (
    Options,
    Rounds,
    Row,
    Spread,
    added_peak_mb,
    flat,
    fresh_process,
    order_of,
    run_benchmark,
    take_turns,
    write,
)
from scripts.command_line import parse_keys
from scripts.pages.norm_guide import update_norm_guide
from scripts.pages.norms_figure import draw

BENCH = PROJECT / "results" / "bench"


def test_two_sides_alternate_and_of_three_each_goes_first_in_turn() -> None:
    assert [order_of("AB", round_) for round_ in range(3)] == [["A", "B"], ["B", "A"], ["A", "B"]]
    assert [order_of("ABC", round_)[0] for round_ in range(4)] == ["A", "B", "C", "A"]
    assert all(sorted(order_of("ABC", round_)) == ["A", "B", "C"] for round_ in range(3))


def test_rounds_take_turns_and_those_that_warm_up_do_not_count() -> None:
    called: list[str] = []

    def side(name: str, spent: list[float]) -> Callable[[], float]:
        left = iter(spent)

        def work() -> float:
            called.append(name)
            return next(left)

        return work

    found = take_turns({"A": side("A", [9, 1, 2]), "B": side("B", [9, 4, 3])}, 2, warm_up=1)
    assert "".join(called) == "ABBAAB"
    assert found.spent == {"A": [1, 2], "B": [4, 3]}


def test_a_ratio_is_the_median_of_the_ratios_of_rounds_and_not_the_ratio_of_medians() -> None:
    rounds = Rounds({"A": [2.0, 60.0, 3.0, 8.0], "B": [1.0, 20.0, 3.0, 16.0]})
    found = rounds.ratio("A", "B")  # 2, 3, 1, 0.5
    assert found.median == 1.5
    assert found.median != rounds.median("A") / rounds.median("B")
    assert (found.lowest, found.highest, found.rounds) == (0.5, 3.0, 4)
    quartiles = [found.lower_quartile, found.upper_quartile]
    np.testing.assert_allclose(quartiles, np.percentile([2, 3, 1, 0.5], [25, 75]))
    assert Spread.of([0.7]) == (0.7, 0.7, 0.7, 0.7, 0.7, 1)


def test_every_row_of_the_file_says_spread_rounds_threads_and_processor(tmp_path: Path) -> None:
    ratio = Spread.of([0.5, 1.0, 2.0])
    path = tmp_path / "new" / "some.csv"
    write(path, [{"what": "a", "ratio": ratio}, {"what": "b", "to_eager": ratio, "peak_mb": 3}])
    first, second = csv.DictReader(path.read_text().splitlines())
    assert (first["ratio"], first["lowest"], first["highest"]) == ("1.0", "0.5", "2.0")
    assert (second["to_eager"], second["to_eager_lowest"], second["to_eager_upper_quartile"]) == (
        "1.0",
        "0.5",
        "1.5",
    )
    assert (first["peak_mb"], second["peak_mb"]) == ("", "3")
    for row in (first, second):
        assert (row["rounds"], row["threads"]) == ("3", str(torch.get_num_threads()))
        assert row["processor"]


def test_ratios_of_other_rounds_say_so() -> None:
    row = flat({"ratio": Spread.of([1.0, 2.0]), "memory_ratio": Spread.of([1.0])})
    assert (row["rounds"], row["memory_ratio_rounds"]) == (2, 1)


def test_a_row_without_rounds_is_refused() -> None:
    with pytest.raises(ValueError, match="without rounds or spread"):
        flat({"what": "a", "ratio": 0.5})


def test_an_unknown_key_names_the_keys() -> None:
    assert parse_keys(["rounds=3"], {"rounds": "7", "output": "x"}) == {"rounds": "3", "output": "x"}
    for argument in ("round=3", "--rounds", "rounds"):
        with pytest.raises(ValueError, match=f"unknown argument '{argument}': .* rounds=7"):
            parse_keys([argument], {"rounds": "7"})


class Fresh(NamedTuple):
    """What a fresh process says of itself."""

    process: int
    variables: dict[str, str]
    peak_mb: float  # of work that allocates 64 MB


@pytest.fixture(scope="module")
def fresh() -> Fresh:
    before = dict(os.environ)
    # an allocator that keeps freed memory, as the Makefile asks for, would hide the second allocation
    changed = {"ADANORM_OF_THE_CHILD": "1", "OMP_NUM_THREADS": None, "MALLOC_MMAP_THRESHOLD_": "65536"}
    found = fresh_process(_of_itself, environment=changed)
    assert dict(os.environ) == before
    return found


def _of_itself() -> Fresh:
    return Fresh(os.getpid(), dict(os.environ), added_peak_mb(lambda: np.ones(64 * 2**17)))


def test_a_fresh_process_has_the_environment_it_is_given_and_this_one_keeps_its_own(fresh: Fresh) -> None:
    assert fresh.process != os.getpid()
    assert fresh.variables["ADANORM_OF_THE_CHILD"] == "1"
    assert "OMP_NUM_THREADS" not in fresh.variables
    assert "ADANORM_OF_THE_CHILD" not in os.environ


def test_the_peak_of_work_is_what_it_allocates_at_once(fresh: Fresh) -> None:
    assert fresh.peak_mb == pytest.approx(64, abs=8)


def test_the_norms_benchmark_writes_what_the_guide_and_its_figure_read(tmp_path: Path) -> None:
    costs = tmp_path / "norms.csv"
    write(costs, list(norms.measure(Options(1, {"norms": "rmsnorm", "devices": "cpu", "teams": "1"}))))
    study = load_study("beyond")
    table = Table(study, study_grid(study, runs=str(tmp_path)))
    marks = "<!-- facts: rmsnorm -->\n<!-- /facts -->"
    text = update_norm_guide(marks, [table], costs=costs, invariances={})
    assert "as a multiple of LayerNorm's: " in text
    assert "at (4096, 512)" in text
    draw(costs)
    assert b"RMSNorm takes" in (tmp_path / "norms.svg").read_bytes()


def test_a_norm_that_cannot_be_timed_is_refused() -> None:
    with pytest.raises(ValueError, match="norms=weightnorm: choose from "):
        next(norms.measure(Options(1, {"norms": "adanorm,weightnorm", "devices": "cpu", "teams": "1"})))


def test_a_benchmark_writes_the_file_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(options: Options) -> list[Row]:
        return [{"what": options.keys["what"], "ratio": Spread.of([1.5] * options.rounds)}]

    monkeypatch.setattr(sys, "argv", ["scripts/benchmarks/some.py", "rounds=3", f"output={tmp_path}"])
    path = run_benchmark(measure, rounds=7, keys={"what": "speed"})
    assert path == tmp_path / "some.csv"
    (row,) = csv.DictReader(path.read_text().splitlines())
    assert (row["what"], row["ratio"], row["rounds"], row["threads"]) == ("speed", "1.5", "3", "1")
    assert capsys.readouterr().out.startswith("what speed, ratio 1.500 (quartiles ")


def test_a_mistake_on_the_command_line_is_one_line_and_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["some.py", "rounds=none", f"output={tmp_path}"])
    with pytest.raises(SystemExit) as stopped:
        run_benchmark(lambda options: [], rounds=7)
    assert stopped.value.code == 2
    assert capsys.readouterr().err == "error: rounds=none: must be a whole number of at least 1\n"
    assert not any(tmp_path.iterdir())


def test_the_committed_figure_is_drawn_from_the_committed_times(tmp_path: Path) -> None:
    shutil.copy(BENCH / "norms.csv", tmp_path)
    draw(tmp_path / "norms.csv")
    assert (tmp_path / "norms.svg").read_bytes() == (BENCH / "norms.svg").read_bytes()


@pytest.mark.parametrize(
    "path", sorted((PROJECT / "scripts" / "benchmarks").glob("*.py")), ids=lambda p: p.stem
)
def test_a_benchmark_says_how_to_run_it(path: Path) -> None:
    text = path.read_text()
    if "    run_benchmark(" in text and path.stem != "harness":
        assert f"python -m scripts.benchmarks.{path.stem}" in text.split('"""')[1]
