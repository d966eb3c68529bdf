"""`adanorm compare`: norms on the same test examples, from what their records count."""

from __future__ import annotations

from pathlib import Path

import pytest

from adanorm.cli.compare import compare
from tests.verdicts.test_by_example import PAIR, run_of, write


def test_a_comparison_says_gap_errors_spreads_and_the_outputs_that_it_is_of(tmp_path: Path) -> None:
    write(tmp_path, range(1, 6))
    runs = {norm: run_of(norm, tmp_path) for norm in PAIR}
    lines = compare(runs, [PAIR])
    assert lines[0] == "rt smoke, test accuracy"
    assert lines[1] == "  adanorm over layernorm, seeds 1, 2, 3, 4, 5, 32 examples"
    assert lines[3].startswith("    standard errors: examples 6.")
    assert sum("on its distribution" in line for line in lines) == 2
    assert lines[-1].endswith(", the series of seeds 1 to 40")
    write(tmp_path, [41, 42])
    assert compare(runs, [PAIR]) == lines
    fresh = compare(runs, [PAIR], seeds=[41, 42])
    assert fresh[1] == "  adanorm over layernorm, seeds 41, 42, 32 examples"
    assert fresh[-1].endswith(", the series of seeds 41 to 100")
    assert max(map(len, [*lines, *fresh])) <= 80
    with pytest.raises(ValueError, match="rt: no run has counted loss of its test examples"):
        compare(runs, [PAIR], metric="loss")
    write(tmp_path, [6], counted=False)
    with pytest.raises(ValueError, match="has not counted its test examples"):
        compare(runs, [PAIR])
