"""The losses of every task under every norm stay those on file; the portable arithmetic that ensures it."""

import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from adanorm import process
from adanorm.config.paths import PROJECT, choices
from adanorm.process import HELD, PRODUCTS, VARIABLE, set_up_libraries
from adanorm.records import reader
from tests.golden import ROUNDING, golden, losses

# Their models are those of de-en, rt and enwik8-lstm.
FURTHER = ("en-de", "en-vi", "sst5", "enwik8-gru", "enwik8-rnn")


@pytest.mark.long
@pytest.mark.needs("numba")  # its dropout is part of the losses
@pytest.mark.parametrize(
    "tasks",
    [
        [task for task in choices("task") if task not in FURTHER],
        pytest.param(FURTHER, marks=pytest.mark.nightly),
    ],
    ids=["others", "of the same models"],
)
def test_portable_arithmetic_gives_the_losses_on_file_to_the_bit(tasks: Sequence[str]) -> None:
    if find_spec("fairseq") is None:
        tasks = [task for task in tasks if not task.startswith(("de-", "en-"))]
    held = {**HELD, VARIABLE: "portable", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(  # a process of its own: arithmetic is held from its start
        [sys.executable, "-m", "tests.golden", *tasks],
        cwd=PROJECT, env={**os.environ, **held}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" 0 other") == len(tasks)


@pytest.mark.needs("numba")
@pytest.mark.parametrize("task", ["mnist", "rt"])
def test_this_machines_arithmetic_gives_the_losses_on_file_within_rounding(task: str) -> None:
    computed = losses(task)
    assert computed.keys() >= golden(task).keys()
    for norm, expected in golden(task).items():
        assert computed[norm] == pytest.approx(expected, rel=ROUNDING), norm


@pytest.mark.parametrize(
    ("name", "value", "must_be"),
    [(VARIABLE, "exact", "portable"), (PRODUCTS, "blas", "onednn or mkl")],
)
def test_another_arithmetic_or_library_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, must_be: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=f"{name}={value}: must be {must_be}, or not set"):
        set_up_libraries()


@pytest.mark.parametrize(
    ("vendor", "family", "library"),
    [
        ("AuthenticAMD", 25, "mkl"), ("AuthenticAMD", 26, "onednn"), ("GenuineIntel", 6, "mkl"),
        ("GenuineIntel", 26, "mkl"), (None, 26, "onednn"),
    ],
)  # fmt: skip
def test_the_processor_chooses_the_library_of_products(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vendor: str | None, family: int, library: str
) -> None:
    monkeypatch.setattr(process, "CPUINFO", tmp_path / "cpuinfo")
    named = f"vendor_id\t: {vendor}\n" if vendor else ""
    process.CPUINFO.write_text(f"processor\t: 0\n{named}cpu family\t: {family}\nmodel\t\t: 17\n")
    monkeypatch.delenv(PRODUCTS, raising=False)
    process.processor_fact.cache_clear()
    assert process.products() == library
    process.processor_fact.cache_clear()


def test_a_run_held_to_portable_arithmetic_computes_by_it_and_says_so(
    tmp_path: Path,
) -> None:
    settings = ("task=gaussian", "norm=adanorm", "scale=smoke", f"runs={tmp_path}")
    run = subprocess.run(
        [sys.executable, "-m", "adanorm", "run", *settings],
        cwd=PROJECT, env={**os.environ, VARIABLE: "portable"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    (path,) = tmp_path.glob("gaussian/adanorm/*/record.jsonl")
    arithmetic = reader.record(path.parent).environment["arithmetic"]
    assert {key: arithmetic[key] for key in (VARIABLE, *HELD)} == {VARIABLE: "portable", **HELD}
    usual = torch.backends.cpu.get_cpu_capability()
    assert arithmetic["instructions"] == ("AVX2" if usual.startswith("AVX") else usual)
