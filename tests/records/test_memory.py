"""The peak memory of a process, as its system says."""

from __future__ import annotations

import re
import resource
import sys
from pathlib import Path

import pytest
import torch

from adanorm.records import environment
from adanorm.records.environment import peak_memory

CPU = torch.device("cpu")


@pytest.mark.skipif(not environment.STATUS.exists(), reason="says what Linux says")
def test_a_peak_is_the_kernels_and_no_less_than_what_is_held_now() -> None:
    (said,) = re.findall(r"VmHWM:\s*(\d+) kB", environment.STATUS.read_text())
    assert peak_memory(CPU) == pytest.approx(1024 * int(said), abs=2e6)  # its counters lag by some pages
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    assert peak_memory(CPU) > resource.getpagesize() * pages - 2e6


@pytest.mark.parametrize(("platform", "unit"), [("linux", 1024), ("darwin", 1)])
def test_another_system_counts_in_its_own_unit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, platform: str, unit: int
) -> None:
    monkeypatch.setattr(environment, "STATUS", tmp_path / "none")
    monkeypatch.setattr(sys, "platform", platform)
    found = peak_memory(CPU)
    assert found == pytest.approx(unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, rel=1e-4)
