"""What every task computes under every norm stays what it was."""

from __future__ import annotations

import pytest

from adanorm.config.paths import choices
from tests.golden import ROUNDING, golden, losses


@pytest.mark.needs("numba")  # its dropout is part of the losses
@pytest.mark.parametrize("task", choices("task"))
def test_the_first_losses_are_those_on_file(task: str) -> None:
    found = dict(losses(task))
    assert found.keys() == golden()[task].keys()
    for norm, expected in golden()[task].items():
        assert found[norm] == pytest.approx(expected, rel=ROUNDING), norm
