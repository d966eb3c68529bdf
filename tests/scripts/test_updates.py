"""Updates of one checkout against another's."""

from __future__ import annotations

from pathlib import Path

import pytest

from adanorm.config.paths import PROJECT
from scripts.benchmarks.harness import Options, Row
from scripts.benchmarks.updates import Child, measure

KEYS = {"tasks": "rt", "scale": "smoke", "norm": "adanorm", "seconds": "0.01", "evaluations": "1"}
KEYS |= {"arithmetic": "", "baseline": str(PROJECT)}


def measured(keys: dict[str, str]) -> list[Row]:
    return list(measure(Options(2, {**KEYS, **keys})))


def test_a_checkout_against_itself_makes_the_same_updates_and_scores() -> None:
    updates, evaluation = measured({})
    assert (updates["what"], evaluation["what"]) == ("update", "validation pass")
    for row, rounds in ((updates, 2), (evaluation, 1)):
        assert row["same_results"]
        assert row["here_per_second"] > 0
        assert row["ratio"].rounds == rounds


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"baseline": ""}, "baseline=: must be"),
        ({"baseline": "0"}, "baseline=0: must be"),
        ({"arithmetic": "exact"}, "arithmetic=exact: must be portable"),
        ({"tasks": "rt,none"}, "tasks=none: choose from rt, sst5"),
    ],
)
def test_a_mistake_is_named_before_any_work(keys: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        measured(keys)


@pytest.mark.parametrize(
    ("code", "settings", "message"),
    [
        # Nothing to import there: Python looks further, and may find the package elsewhere.
        (None, ["task=rt", "scale=smoke"], r"its process imports|No module named"),
        (PROJECT, ["task=rt", "scale=smoke", "norm=adanrom"], "unknown norm 'adanrom': choose from"),
    ],
    ids=["other code", "unknown norm"],
)
def test_a_process_that_cannot_be_set_up_says_why(
    code: Path | None, settings: list[str], message: str, tmp_path: Path
) -> None:
    with (
        Child(code or tmp_path, settings, tmp_path / "runs") as child,
        pytest.raises(ValueError, match=message),
    ):
        child.wait()
