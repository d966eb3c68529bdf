"""What every task computes under every norm stays what it was."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

from adanorm.config.paths import PROJECT, choices
from tests.golden import ROUNDING, golden, losses


@pytest.mark.needs("numba")  # its dropout is part of the losses
def test_portable_arithmetic_gives_the_losses_on_file_to_the_bit() -> None:
    left_out = () if find_spec("fairseq") else ("de-en", "en-de", "en-vi")
    named = [task for task in choices("task") if task not in left_out]
    found = subprocess.run(  # a process of its own: arithmetic is held from its start
        [sys.executable, "-m", "tests.golden", *named],
        cwd=PROJECT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout + found.stderr
    assert found.stdout.count(" 0 other") == len(named)


@pytest.mark.needs("numba")
@pytest.mark.parametrize("task", ["mnist", "rt"])
def test_this_machines_own_arithmetic_gives_them_within_rounding(task: str) -> None:
    found = losses(task)
    assert found.keys() == golden(task).keys()
    for norm, expected in golden(task).items():
        assert found[norm] == pytest.approx(expected, rel=ROUNDING), norm
