"""A run whose streams were closed by who started it ends as any other, and prints into none of its files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from adanorm.config.compose import compose_experiment
from adanorm.records import reader


@pytest.mark.parametrize("closed", ["2>&-", ">&-", "<&- >&- 2>&-"])
def test_a_closed_stream_breaks_no_run(closed: str, tmp_path: Path) -> None:
    settings = ["task=gaussian", "norm=adanorm", "scale=smoke", f"runs={tmp_path}"]
    command = f"{sys.executable} -m adanorm run {' '.join(settings)} {closed}"
    assert subprocess.run(command, shell=True, check=False).returncode == 0
    result = reader.result(compose_experiment(settings).folder())
    assert result is not None
    assert result.status == "done"
