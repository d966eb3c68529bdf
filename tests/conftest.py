from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from adanorm.compose import experiment
from adanorm.config import PROJECT, Experiment, mirror_of

torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before anything imports triton


@pytest.fixture
def mirror() -> Path:
    """The folder of real data, where there is one."""
    found = mirror_of(experiment([]).data)
    if found is None or not Path(found).is_dir():
        pytest.skip("no mirror folder of the real data here (ADANORM_MIRROR or ../shared/data)")
    return Path(found)


@pytest.fixture
def smoke(tmp_path: Path) -> Callable[..., Experiment]:
    """Makes experiments of scale smoke whose records land in a temporary folder."""

    def make(*overrides: str) -> Experiment:
        return experiment(["task=rt", "scale=smoke", f"runs={tmp_path / 'runs'}", *overrides])

    return make


Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def command() -> Command:
    """Runs `python -m <module> <arguments>` from the project's root and returns what it printed."""

    def run(
        module: str, *arguments: str, launcher: Sequence[str] = (sys.executable, "-m")
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*launcher, module, *arguments],
            cwd=PROJECT,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    return run
