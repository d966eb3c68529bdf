"""Comparisons on record: where they lie, and that those that are committed are found again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from adanorm.config.compose import cached_experiment, compose_experiment
from adanorm.config.experiment import Experiment
from adanorm.config.paths import PROJECT
from adanorm.files import as_json, with_checksum
from adanorm.records.comparisons import comparison_path, read_comparison, write_comparison
from adanorm.verdicts.by_example import claimed_pairs, out_of_date
from scripts.comparisons import CELLS

COMMITTED = PROJECT / "results" / "comparisons"
EXAMPLE = sorted(COMMITTED.rglob("*.json"))[0]


def test_no_claim_lacks_a_comparison_on_the_examples_of_its_runs() -> None:
    """A verdict without the noise of examples, or with that of other runs, may be another."""
    assert not [cell for cell in CELLS if out_of_date(*cell, claimed_pairs(cell[0]))]


def test_a_comparison_is_found_in_either_order_and_written_back_byte_for_byte(tmp_path: Path) -> None:
    for path in COMMITTED.rglob("*.json"):
        values = json.loads(path.read_bytes())
        settings = [f"task={values['task']}", f"scale={values['scale']}"]
        first, second = (cached_experiment([*settings, f"norm={norm}"]) for norm in values["norms"])
        record = read_comparison(first, second)
        assert record is not None
        assert record == read_comparison(second, first)
        write_comparison(tmp_path / "again" / path.name, record)
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes()


@pytest.fixture
def pair(tmp_path: Path) -> list[Experiment]:
    chosen = ["task=rt", "scale=smoke", f"runs={tmp_path}"]
    return [compose_experiment([*chosen, f"norm={norm}"]) for norm in ("layernorm", "adanorm")]


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda text: text[:100], "no JSON object"),
        (lambda text: text.replace(b'"examples": ', b'"examples": 1'), "not what was written"),
        (lambda text: text.replace(b'"checksum"', b'"seal"'), "not what was written"),
        (lambda text: as_json(with_checksum({"gap": 1.0})), "no comparison"),
    ],
)
def test_a_spoiled_comparison_is_named_and_counts_nowhere(
    pair: list[Experiment], tmp_path: Path, spoil: Callable[[bytes], bytes], reason: str
) -> None:
    path = comparison_path(*pair)
    assert path.parent == tmp_path / "comparisons" / "rt", "beside runs that lie elsewhere"
    assert read_comparison(*pair) is None
    path.parent.mkdir(parents=True)
    path.write_bytes(spoil(EXAMPLE.read_bytes()))
    with pytest.warns(UserWarning, match=f"{path.name} is not counted: it is {reason}"):
        assert read_comparison(*pair) is None
