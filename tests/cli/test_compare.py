"""`adanorm compare`: norms on the same test examples, from what their records count."""

from __future__ import annotations

from pathlib import Path

import pytest

from adanorm.cli.compare import compare
from tests.conftest import Command
from tests.verdicts.test_by_example import PAIR, run_of, write


def test_a_comparison_says_gap_errors_spreads_and_the_outputs_that_it_is_of(tmp_path: Path) -> None:
    write(tmp_path, range(1, 6))
    runs = {norm: run_of(norm, tmp_path) for norm in PAIR}
    lines = compare(runs, [PAIR])
    assert lines[:2] == [
        "rt smoke, test accuracy",
        "  adanorm over layernorm, seeds 1, 2, 3, 4, 5, 32 examples",
    ]
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["task=enwik8", "norm=none,adanorm", "scale=smoke"], "no completed run; `adanorm run` makes it"),
        (["task=rt", "norm=adanorm"], "name two norms or more"),
        (["task=rt", "scale=smoke"], "no completed runs"),
        (["task=gaussian", "scale=smoke"], "no claim is of it"),
        (["task=rt", "norm=adanorm,adanorm"], "norm=adanorm,adanorm: adanorm is named twice"),
        (["task=rt", "norm=none,adanorm", "seed=1,1,1"], "seeds=1,1,1: 1 is named twice"),
        (["task=rt", "norm=none,adanorm", "++norm.name=layernorm"], "may not change the norm.name of a run"),
        (["task=rt", "norm=none,adanorm", "+seed=3"], "may not change the seed of a run"),
    ],
)
def test_what_cannot_be_compared_is_one_line(
    tmp_path: Path, command: Command, arguments: list[str], message: str
) -> None:
    done = command("compare", *arguments, f"runs={tmp_path}")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert message in done.stderr
