"""Comparisons on record: where they lie, and that those that are committed are found again."""

from __future__ import annotations

from pathlib import Path

import pytest

from adanorm.config.compose import compose_experiment
from adanorm.config.paths import PROJECT
from adanorm.records.comparisons import ComparisonRecord, comparison_path, read_comparison, write_comparison

COMMITTED = PROJECT / "results" / "comparisons"


def test_committed_comparisons_are_found_by_their_norms_and_written_back_byte_for_byte(
    tmp_path: Path,
) -> None:
    """But for those of settings that have changed since, which are found by nobody."""
    paths = sorted(COMMITTED.rglob("*.json"))
    if not paths:
        pytest.skip(f"no comparisons in {COMMITTED}")
    found = 0
    for path in paths:
        record = ComparisonRecord.model_validate_json(path.read_bytes())
        first, second = (
            compose_experiment([f"task={record.task}", f"scale={record.scale}", f"norm={norm}", "seed=3"])
            for norm in record.norms
        )
        if comparison_path(first, second) != path:
            continue
        found += 1
        assert read_comparison(first, second) == read_comparison(second, first) == record
        for _ in range(2):
            write_comparison(tmp_path / record.task / path.name, record)
        assert (tmp_path / record.task / path.name).read_bytes() == path.read_bytes()
    assert found > len(paths) / 2


def test_comparisons_of_runs_elsewhere_lie_beside_those(tmp_path: Path) -> None:
    first, second = (
        compose_experiment(["task=rt", "scale=smoke", f"norm={norm}", f"runs={tmp_path}"])
        for norm in ("layernorm", "adanorm")
    )
    assert comparison_path(first, second).parent == tmp_path / "comparisons" / "rt"
    assert read_comparison(first, second) is None
