"""A cell's address names one row, as its study writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from adanorm.cli.trace import trace

OWN = """title: t
rows: {k: {norm: adanorm}, K: {norm: layernorm}, "K/2": {norm: none}}
columns: [rt]
scale: smoke
seeds: [1]
"""


@pytest.mark.parametrize(
    ("row", "norm"), [("k", "adanorm"), ("K", "layernorm"), ("K/2", "none"), ("k/2", "none")]
)
def test_a_row_is_found_as_it_is_written_and_then_in_any_case(tmp_path: Path, row: str, norm: str) -> None:
    (tmp_path / "own.yaml").write_text(OWN)
    lines = trace(f"{tmp_path / 'own.yaml'}/{row}/RT")
    assert lines[-1].split()[:4] == ["adanorm", "run", "task=rt", f"norm={norm}"]
