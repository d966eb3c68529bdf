"""`adanorm study until=decided`: what a user may get wrong, before any run."""

from __future__ import annotations

from pathlib import Path

import pytest

from adanorm.cli.command import dispatch


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("table4 until=foo", "until=foo: must be decided"),
        ("table4 most=5", "most=5: only with until=decided"),
        ("table4 until=decided most=3", "most=3: must be one of 4 to 40"),
        ("table4 until=decided most=41", "most=41: must be one of 4 to 40"),
        ("table4 until=decided most=many", "most=many: must be a whole number"),
        ("table4 until=decided seeds=1,2", "seeds=1,2: until=decided chooses the seeds"),
        ("ablation-c until=decided", "no claim compares two norms of the study"),
    ],
)
def test_nonsense_ends_with_the_value_and_the_choices(tmp_path: Path, arguments: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        dispatch(["study", *arguments.split(), f"runs={tmp_path}"])
    assert not list(tmp_path.iterdir())
