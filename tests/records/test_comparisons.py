"""Comparisons on record: where they lie, and that those that are committed are found again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from adanorm.config.compose import cached_experiment, compose_experiment
from adanorm.config.paths import PROJECT
from adanorm.files import as_json, with_checksum
from adanorm.records.comparisons import (
    comparison_of,
    comparison_path,
    read_comparison,
    write_comparison,
)
from scripts.comparisons import lacking, unread

COMMITTED = PROJECT / "results" / "comparisons"


def test_committed_comparisons_are_those_of_the_committed_records() -> None:
    """A verdict without the noise of examples, or with that of other runs, may be another."""
    assert len([*COMMITTED.rglob("*.json")]) > 20
    assert (lacking(), unread()) == ({}, [])


def test_a_comparison_is_found_in_either_order_and_written_back_byte_for_byte(tmp_path: Path) -> None:
    for path in sorted(COMMITTED.rglob("*.json")):
        record = comparison_of(path.read_bytes())
        first, second = (
            cached_experiment([f"task={record.task}", f"scale={record.scale}", f"norm={norm}"])
            for norm in record.norms
        )
        assert read_comparison(first, second) == read_comparison(second, first) == record
        for _ in range(2):
            write_comparison(tmp_path / record.task / path.name, record)
        assert (tmp_path / record.task / path.name).read_bytes() == path.read_bytes()


def test_comparisons_of_runs_elsewhere_lie_beside_those(tmp_path: Path) -> None:
    first, second = (
        compose_experiment(["task=rt", "scale=smoke", f"norm={norm}", f"runs={tmp_path}"])
        for norm in ("layernorm", "adanorm")
    )
    assert comparison_path(first, second).parent == tmp_path / "comparisons" / "rt"
    assert read_comparison(first, second) is None


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda text: text[:100], "no JSON object"),
        (lambda text: b"[]", "no JSON object"),
        (lambda text: text.replace(b'"examples": ', b'"examples": 1'), "not what was written"),
        (lambda text: text.replace(b'"checksum"', b'"seal"'), "not what was written"),
        (lambda text: as_json(with_checksum({"gap": 1.0})), "no comparison"),
    ],
)
def test_a_spoiled_comparison_is_named_and_counts_nowhere(
    tmp_path: Path, spoil: Callable[[bytes], bytes], said: str
) -> None:
    first, second = (
        compose_experiment(["task=rt", "scale=smoke", f"norm={norm}", f"runs={tmp_path}"])
        for norm in ("layernorm", "adanorm")
    )
    path = comparison_path(first, second)
    path.parent.mkdir(parents=True)
    path.write_bytes(spoil(next(COMMITTED.rglob("*.json")).read_bytes()))
    with pytest.warns(UserWarning, match=f"{path.name} is not counted: it is {said}"):
        assert read_comparison(first, second) is None
