"""The peak memory of a process, as its system says."""

from __future__ import annotations

import re
import resource
import sys
from pathlib import Path

import pytest
import torch

from adanorm.training import memory
from adanorm.training.memory import peak_memory

CPU = torch.device("cpu")


@pytest.mark.skipif(not memory.STATUS.exists(), reason="says what Linux says")
def test_a_peak_is_the_kernels_and_stays_when_memory_is_given_back() -> None:
    peak = peak_memory(CPU)
    assert peak == pytest.approx(_kernels("VmHWM"), abs=2e6)  # whose counters are behind by some pages
    held = torch.ones(peak - _kernels("VmRSS") + 30_000_000, dtype=torch.uint8)
    assert peak_memory(CPU) == pytest.approx(peak + 30_000_000, abs=4e6)
    del held
    assert peak_memory(CPU) == pytest.approx(peak + 30_000_000, abs=4e6)


@pytest.mark.parametrize(("platform", "unit"), [("linux", 1024), ("darwin", 1)])
def test_another_system_counts_in_its_own_unit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, platform: str, unit: int
) -> None:
    monkeypatch.setattr(memory, "STATUS", tmp_path / "none")
    monkeypatch.setattr(sys, "platform", platform)
    found = peak_memory(CPU)
    assert found == pytest.approx(unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, rel=1e-4)


def _kernels(name: str) -> int:
    (found,) = re.findall(rf"{name}:\s*(\d+) kB", Path("/proc/self/status").read_text())
    return 1024 * int(found)
