"""The check of a CUDA machine, as far as it can be tested without one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from adanorm.config.paths import PROJECT, choices
from scripts.gpu_check import Check, checks, main, run_check

PYTHON = (sys.executable, "-c")


@pytest.mark.usefixtures("_quick_start")
def test_without_cuda_it_is_one_line_code_2_and_no_file(tmp_path: Path) -> None:
    output = tmp_path / "gpu-check.json"
    done = subprocess.run(
        ["scripts/gpu-check", f"output={output}"],
        cwd=PROJECT,
        env={**os.environ, "PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "gpu-check: torch sees no CUDA device here\n"
    assert not any(tmp_path.iterdir())


def test_a_verdict_says_what_became_of_a_command() -> None:
    good = run_check(Check("good", (*PYTHON, "print('fine')")), limit=60)
    assert (good.verdict, good.why, good.output) == ("ok", "", "")
    bad = run_check(Check("bad", (*PYTHON, "print('a'); raise SystemExit('so it is')")), limit=60)
    assert str(bad).startswith("bad: FAIL: code 1: so it is (")
    assert bad.output == "a\nso it is"
    slow = run_check(
        Check("slow", (*PYTHON, "import time; print('begun', flush=True); time.sleep(60)")), limit=1
    )
    assert str(slow).startswith("slow: FAIL: no end after 1 s")
    assert str(run_check(Check("two", skipped="one device"), limit=1)) == "two: skipped: one device"


def test_every_task_is_run_and_two_processes_where_there_are_two_devices(tmp_path: Path) -> None:
    kinds = ("tests", "norms", "smoke", "processes")
    one = {check.name: check for check in checks(kinds, tmp_path, device="cuda", devices=1)}
    assert list(one) == ["tests", "norms", *(f"smoke {task}" for task in choices("task")), "processes"]
    assert one["processes"].skipped == "needs two CUDA devices, there is 1"
    (two,) = checks(["processes"], tmp_path, device="cuda", devices=2)
    assert "--nproc-per-node=2" in two.command


@pytest.mark.usefixtures("_quick_start")
def test_a_smoke_run_of_two_processes_is_a_command_that_works(tmp_path: Path) -> None:
    (check,) = checks(["processes"], tmp_path, device="cpu", devices=2)
    found = run_check(check, limit=200)
    assert found.verdict == "ok", found.output
    assert [path.name for path in tmp_path.rglob("result.json")] == ["result.json"]


def test_an_unknown_check_names_the_choices() -> None:
    with pytest.raises(ValueError, match="checks=kernels: choose from tests, norms, smoke, processes"):
        main(["checks=kernels"])
