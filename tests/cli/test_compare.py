"""Norms compared on the same test examples, from recorded outputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from adanorm import tasks
from adanorm.cli.compare import compare_examples
from adanorm.config.compose import compose_experiment
from adanorm.records.folder import RunFolder
from tests.conftest import Command
from tests.reporting.records import record


def test_norms_are_compared_example_by_example(tmp_path: Path) -> None:
    runs = {
        norm: [
            compose_experiment(["task=rt", "scale=smoke", f"norm={norm}", f"seed={s}", f"runs={tmp_path}"])
            for s in (1, 2)
        ]
        for norm in ("layernorm", "adanorm")
    }
    task = tasks.build(runs["layernorm"][0])
    gold = [task.splits.labels[target] for target in task.splits.test.targets]  # type: ignore[attr-defined]
    wrong = ["1" if label == "0" else "0" for label in gold]
    for norm, right in (("layernorm", 16), ("adanorm", 24)):  # of 32
        for run in runs[norm]:
            record(run, test={"accuracy": 100 * right / 32})
            RunFolder(run.folder()).write_outputs([*gold[:right], *wrong[right:]])
    title, _, base, other = compare_examples(runs)
    assert title == "rt smoke, test accuracy, seeds 1, 2, 32 examples"
    assert base.split() == ["layernorm", "50.00"]
    norm, score, gap, low, _, high, p, by_examples, by_seeds = other.split()
    assert (norm, score, gap, by_seeds) == ("adanorm", "75.00", "+25.00", "0.00")
    assert 5 < float(low) < 15
    assert 35 < float(high) < 45
    # Eight examples differ, all one way: a sign-flip test gives 2 / 2^8.
    assert float(p) == pytest.approx(2 / 2**8, abs=0.003)
    assert float(by_examples) == pytest.approx(100 * (0.25 * 0.75 / 31) ** 0.5, abs=0.01)
    assert len(other) <= 80


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["task=enwik8", "norm=none,adanorm", "scale=smoke"], "no completed run; `adanorm run` makes it"),
        (["task=rt", "norm=adanorm"], "name two norms or more"),
        (["task=rt", "norm=adanorm,adanorm"], "norm=adanorm,adanorm: adanorm is named twice"),
        (["task=rt", "norm=none,adanorm", "seed=1,1,1"], "seed 1 is named twice"),
        (["task=rt", "norm=none,adanorm", "++norm.name=layernorm"], "may not change the norm.name of a run"),
        (["task=rt", "norm=none,adanorm", "+seed=3"], "may not change the seed of a run"),
        (["task=rt", "norm=none,adanorm", "metric=chrf"], "unknown metric 'chrf': choose from bleu"),
    ],
)
def test_what_cannot_be_compared_is_one_line(
    tmp_path: Path, command: Command, arguments: list[str], message: str
) -> None:
    done = command("compare", *arguments, f"runs={tmp_path}")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert message in done.stderr


def test_a_metric_that_is_no_mean_over_examples_is_not_compared(tmp_path: Path) -> None:
    runs = [
        compose_experiment(["task=enwik8", "scale=smoke", f"norm={norm}", f"runs={tmp_path}"])
        for norm in ("none", "adanorm")
    ]
    with pytest.raises(ValueError, match="no mean over examples"):
        tasks.build(runs[0]).scored([])
