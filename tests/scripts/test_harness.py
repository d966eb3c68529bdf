"""The benchmarks' harness: who goes first, what a ratio is, what a row says; updates of two checkouts."""

import csv
import os
import re
import shutil
import sys
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch

from adanorm.config.paths import PROJECT
from adanorm.reporting.tables.table import Table
from adanorm.studies.study import load_study, study_grid
from scripts.benchmarks import harness, norms
from scripts.benchmarks.updates import Child, measure
from scripts.command_line import parse_keys
from scripts.norm_guide import draw, update_norm_guide
from tests.scripts.fresh import of_itself

BENCH = PROJECT / "results" / "bench"


def test_sides_take_turns_in_going_first_and_warm_up_rounds_do_not_count() -> None:
    clock = count()  # a side says when it was called
    rounds = harness.take_turns(dict.fromkeys("ABC", lambda: next(clock)), 3, warm_up=1)
    assert rounds.spent == {"A": [5, 7, 9], "B": [3, 8, 10], "C": [4, 6, 11]}, "ABC, BCA, CAB, ABC"


def test_a_ratio_is_the_median_of_the_ratios_of_rounds_and_not_the_ratio_of_medians() -> None:
    rounds = harness.Rounds({"A": [2.0, 60.0, 3.0, 8.0], "B": [1.0, 20.0, 3.0, 16.0]})
    ratio = rounds.ratio("A", "B")  # 2, 3, 1, 0.5
    assert ratio.median != rounds.median("A") / rounds.median("B")
    assert ratio == (1.5, 0.5, *np.percentile([2, 3, 1, 0.5], [25, 75]), 3.0, 4)
    assert harness.Spread.of([0.7]) == (0.7, 0.7, 0.7, 0.7, 0.7, 1)


def test_every_row_of_the_file_says_spread_rounds_threads_and_processor(tmp_path: Path) -> None:
    ratio = harness.Spread.of([0.5, 1.0, 2.0])
    path = tmp_path / "new" / "some.csv"
    harness.write(
        path, [{"what": "a", "ratio": ratio}, {"what": "b", "to_eager": ratio, "peak_mb": 3}]
    )
    first, second = csv.DictReader(path.read_text().splitlines())
    assert [first[key] for key in ("ratio", "lowest", "highest", "peak_mb")] == [
        "1.0",
        "0.5",
        "2.0",
        "",
    ]
    keys = ("to_eager", "to_eager_lowest", "to_eager_upper_quartile", "peak_mb")
    assert [second[key] for key in keys] == ["1.0", "0.5", "1.5", "3"]
    for row in (first, second):
        assert (row["rounds"], row["threads"]) == ("3", str(torch.get_num_threads()))
        assert row["processor"]


def test_ratios_of_other_rounds_say_so() -> None:
    row = harness.flat(
        {"ratio": harness.Spread.of([1.0, 2.0]), "memory_ratio": harness.Spread.of([1.0])}
    )
    assert (row["rounds"], row["memory_ratio_rounds"]) == (2, 1)
    with pytest.raises(AssertionError, match="without rounds"):
        harness.flat({"what": "a", "ratio": 0.5})


@pytest.mark.parametrize("argument", ["round=3", "--rounds", "rounds"])
def test_an_unknown_key_names_the_keys(argument: str) -> None:
    with pytest.raises(ValueError, match=f"unknown argument '{argument}': .* rounds=7"):
        parse_keys([argument], {"rounds": "7"})


def test_a_fresh_process_has_the_environment_it_is_given_and_a_peak_of_what_it_allocates_at_once() -> (
    None
):
    before = dict(os.environ)
    # an allocator that keeps freed memory, as the Makefile asks for, would hide the second
    # allocation
    changed = {
        "ADANORM_OF_THE_CHILD": "1",
        "OMP_NUM_THREADS": None,
        "MALLOC_MMAP_THRESHOLD_": "65536",
    }
    process, variables, peak = harness.fresh_process(of_itself, environment=changed)
    assert dict(os.environ) == before
    assert process != os.getpid()
    assert (variables["ADANORM_OF_THE_CHILD"], variables.get("OMP_NUM_THREADS")) == ("1", None)
    assert peak == pytest.approx(64, abs=8)


def test_the_norms_benchmark_writes_what_the_guide_and_its_figure_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_the_guide = [case for case in norms.CASES["cpu"] if case[:2] == (4096, 512)]
    monkeypatch.setitem(norms.CASES, "cpu", in_the_guide)
    costs, keys = tmp_path / "norms.csv", {"devices": "cpu", "teams": "1"}
    harness.write(costs, list(norms.measure(harness.Options(1, {"norms": "rmsnorm", **keys}))))
    study = load_study("beyond")
    table = Table(study, study_grid(study, runs=str(tmp_path)))
    marks = "<!-- facts: rmsnorm -->\n<!-- /facts -->"
    text = update_norm_guide(
        marks,
        [table],
        costs=costs,
        invariances={},
    )
    assert re.search(r"as a multiple of LayerNorm's: .* at \(4096, 512\)", text)
    draw(costs)
    assert b"RMSNorm takes" in (tmp_path / "norms.svg").read_bytes()
    with pytest.raises(ValueError, match="norms=weightnorm: choose from "):
        next(norms.measure(harness.Options(1, {"norms": "adanorm,weightnorm", **keys})))


def test_a_benchmark_writes_the_file_of_its_name_and_a_mistake_is_one_line_and_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(options: harness.Options) -> list[harness.Row]:
        return [{"what": options.keys["what"], "ratio": harness.Spread.of([1.5] * options.rounds)}]

    monkeypatch.setattr(
        sys, "argv", ["scripts/benchmarks/some.py", "rounds=3", f"output={tmp_path}"]
    )
    path = harness.run_benchmark(measure, rounds=7, keys={"what": "speed"})
    assert path == tmp_path / "some.csv"
    (row,) = csv.DictReader(path.read_text().splitlines())
    assert (row["what"], row["ratio"], row["rounds"], row["threads"]) == ("speed", "1.5", "3", "1")
    assert capsys.readouterr().out.startswith("what speed, ratio 1.500 (quartiles ")
    monkeypatch.setattr(sys, "argv", ["some.py", "rounds=none", f"output={tmp_path / 'other'}"])
    with pytest.raises(SystemExit, match="2"):
        harness.run_benchmark(measure, rounds=7)
    assert capsys.readouterr().err == "error: rounds=none: must be a whole number of at least 1\n"
    assert not (tmp_path / "other").exists()


@pytest.mark.records
def test_the_committed_figure_is_drawn_from_the_committed_times(tmp_path: Path) -> None:
    shutil.copy(BENCH / "norms.csv", tmp_path)
    draw(tmp_path / "norms.csv")
    assert (tmp_path / "norms.svg").read_bytes() == (BENCH / "norms.svg").read_bytes()


def test_a_benchmark_says_how_to_run_it() -> None:
    texts = {
        path.stem: path.read_text() for path in (PROJECT / "scripts" / "benchmarks").glob("*.py")
    }
    for name, text in texts.items():
        if name not in ("__init__", "harness"):
            assert f"python -m scripts.benchmarks.{name}" in text.split('"""')[1]


KEYS = {"tasks": "rt", "scale": "smoke", "norm": "adanorm", "seconds": "0.01", "evaluations": "1"}
KEYS |= {"arithmetic": "", "threads": "1", "baseline": str(PROJECT)}


def measured(keys: dict[str, str]) -> list[harness.Row]:
    return list(measure(harness.Options(2, {**KEYS, **keys})))


@pytest.mark.nightly
def test_a_checkout_against_itself_makes_the_same_updates_and_scores() -> None:
    updates, evaluation = measured({})
    assert (updates["what"], evaluation["what"]) == ("update", "validation pass")
    for row, rounds in ((updates, 2), (evaluation, 1)):
        assert row["same_results"]
        assert row["here_per_second"] > 0
        assert row["ratio"].rounds == rounds


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"baseline": ""}, "baseline=: must be"),
        ({"baseline": "0"}, "baseline=0: must be"),
        ({"arithmetic": "exact"}, "arithmetic=exact: must be portable, mkl, onednn, or"),
        ({"tasks": "rt,none"}, "tasks=none: choose from rt, sst5"),
        ({"norm": "adanrom"}, "unknown norm 'adanrom': choose from"),
    ],
)
def test_a_mistake_is_named_before_any_work(keys: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        measured(keys)


def test_a_process_that_imports_other_code_is_refused(tmp_path: Path) -> None:
    with (
        Child(tmp_path, ["task=rt", "scale=smoke"], tmp_path / "runs") as child,
        pytest.raises(
            ValueError, match=r"its process imports|No module named"
        ),  # Python looks further
    ):
        child.wait()
