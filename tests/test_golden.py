"""What every task computes under every norm stays what it was."""

from __future__ import annotations

import subprocess
import sys

import pytest

from adanorm.config.paths import PROJECT, choices
from tests.golden import ROUNDING, golden, losses

TRANSLATION = ["de-en", "en-de", "en-vi"]
OTHERS = [task for task in choices("task") if task not in TRANSLATION]


@pytest.mark.needs("numba")  # its dropout is part of the losses
@pytest.mark.parametrize("share", [" ".join(share) for share in (TRANSLATION, OTHERS[::2], OTHERS[1::2])])
def test_portable_arithmetic_gives_the_losses_on_file_to_the_bit(share: str) -> None:
    found = subprocess.run(  # a process of its own: arithmetic is held from its start
        [sys.executable, "-m", "tests.golden", *share.split()],
        cwd=PROJECT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout + found.stderr
    assert found.stdout.count(" 0 other") == len(share.split())


@pytest.mark.needs("numba")
@pytest.mark.parametrize("task", ["mnist", "rt"])
def test_this_machines_own_arithmetic_gives_them_within_rounding(task: str) -> None:
    found = losses(task)
    assert found.keys() == golden(task).keys()
    for norm, expected in golden(task).items():
        assert found[norm] == pytest.approx(expected, rel=ROUNDING), norm
