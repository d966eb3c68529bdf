"""What every task computes under every norm stays what it was."""

from __future__ import annotations

import pytest

from adanorm.config.paths import choices
from tests.golden import golden, losses

# Held to AVX2 or to SSE4.1 the losses differ by up to 4e-5 and 7e-5 from those with AVX-512; under a rate
# that is a tenth higher by 2e-4 (RT) to 9e-3 (PTB).
ROUNDING = 1e-4


@pytest.mark.needs("numba")  # its dropout is part of the losses
@pytest.mark.parametrize("task", choices("task"))
def test_the_first_losses_are_those_on_file(task: str) -> None:
    found = dict(losses(task))
    assert found.keys() == golden()[task].keys()
    for norm, expected in golden()[task].items():
        assert found[norm] == pytest.approx(expected, rel=ROUNDING), norm
