"""Portable arithmetic: asked for by a variable, in force before torch is, and on record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from adanorm.config.portable import HELD, VARIABLE, hold_arithmetic
from tests.conftest import Command


def test_nonsense_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "exact")
    with pytest.raises(ValueError, match=f"{VARIABLE}=exact: must be portable, or not set"):
        hold_arithmetic()


def test_a_run_held_to_portable_arithmetic_computes_by_it_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new_process: Command
) -> None:
    monkeypatch.setenv(VARIABLE, "portable")
    run = new_process("run", "task=gaussian", "norm=adanorm", "scale=smoke", f"runs={tmp_path}")
    assert run.returncode == 0, run.stderr
    (path,) = tmp_path.glob("gaussian/adanorm/*/environment.json")
    arithmetic = json.loads(path.read_text())["arithmetic"]
    assert {key: arithmetic[key] for key in (VARIABLE, *HELD)} == {VARIABLE: "portable", **HELD}
    usual = torch.backends.cpu.get_cpu_capability()
    assert arithmetic["instructions"] == ("AVX2" if usual.startswith("AVX") else usual)
