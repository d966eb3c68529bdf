"""Norms compared on the same test examples, from recorded outputs."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from adanorm import tasks
from adanorm.cli.compare import compare
from adanorm.config.compose import compose_experiment
from adanorm.config.experiment import Experiment
from adanorm.records.comparisons import read_comparison
from adanorm.records.folder import RunFolder
from adanorm.verdicts.by_example import compare_by_example
from tests.conftest import Command
from tests.reporting.records import record


def two_norms(folder: Path, *settings: str) -> dict[str, Experiment]:
    chosen = [*settings, "scale=smoke", f"runs={folder}"]
    return {norm: compose_experiment([*chosen, f"norm={norm}"]) for norm in ("layernorm", "adanorm")}


def labels_of(run: Experiment) -> list[str]:
    splits = tasks.build(run).splits  # type: ignore[attr-defined]
    return [splits.labels[target] for target in splits.test.targets]


def test_norms_are_compared_example_by_example(tmp_path: Path) -> None:
    by_seed = [two_norms(tmp_path, "task=rt", f"seed={seed}") for seed in (1, 2)]
    runs = {norm: [made[norm] for made in by_seed] for norm in ("layernorm", "adanorm")}
    gold = labels_of(runs["layernorm"][0])
    wrong = ["1" if label == "0" else "0" for label in gold]
    for norm, right in (("layernorm", 16), ("adanorm", 24)):  # of 32
        for run in runs[norm]:
            record(run, test={"accuracy": 100 * right / 32})
            RunFolder(run.folder()).write_outputs([*gold[:right], *wrong[right:]])
    lines = compare({norm: made[0] for norm, made in runs.items()}, [("layernorm", "adanorm")])
    assert lines[0] == "rt smoke, test accuracy"
    assert lines[1] == "  adanorm over layernorm, seeds 1, 2, 32 examples"
    # Seeds agree, so that all the error is the examples': eight of them differ, all one way.
    by_examples = 100 * (0.25 * 0.75 / 31) ** 0.5
    assert f"standard errors: examples {by_examples:.3f}, seeds" in lines[3]
    written = read_comparison(runs["layernorm"][0], runs["adanorm"][0])
    assert written is not None
    assert (written.gap, written.seeds, written.examples) == (25.0, [1, 2], 32)
    assert written.example_error == pytest.approx(by_examples)
    assert written.test_set == {}, "fewer than five seeds"
    assert read_comparison(runs["adanorm"][0], runs["layernorm"][0]) == written, "in either order"
    assert read_comparison(runs["adanorm"][0], runs["adanorm"][0]) is None
    made = {norm: found[0] for norm, found in runs.items()}
    fewer = compare(made, [("layernorm", "adanorm")], seeds=[1])
    assert "not recorded" in fewer[-2]
    assert read_comparison(*made.values()) == written, "of both seeds still"
    slower = two_norms(tmp_path, "task=rt", "training.lr=0.5")
    for run in slower.values():
        record(run, test={"accuracy": 50.0})
        RunFolder(run.folder()).write_outputs([*gold[:16], *wrong[16:]])
    assert "not recorded" in compare(slower, [("layernorm", "adanorm")])[-2], "no claim is of another rate"
    assert read_comparison(*slower.values()) is None
    assert max(map(len, [*lines, *fewer])) <= 80


def test_examples_are_compared_seed_by_seed(tmp_path: Path) -> None:
    norms = two_norms(tmp_path, "task=rt")
    gold = labels_of(norms["layernorm"])
    for norm, ahead in (("layernorm", 0), ("adanorm", 4)):  # of 32
        for seed, right in ((1, 16 + ahead), (2, 24 + ahead)):
            run = norms[norm].model_copy(update={"seed": seed})
            record(run, test={"accuracy": 100 * right / 32})
            outputs = [label if n < right else str(1 - int(label)) for n, label in enumerate(gold)]
            RunFolder(run.folder()).write_outputs(outputs)
    (found,) = compare_by_example(norms, [("layernorm", "adanorm")])
    assert found.gaps == [12.5, 12.5]
    # 4 of 32 examples differ in either seed, others in each: the seeds' means do not.
    assert found.record.seed_variance == pytest.approx(-found.record.rest_variance / 32)


def test_from_five_seeds_on_the_spread_of_each_norm_is_split(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    norms = two_norms(tmp_path, "task=rt")
    gold = labels_of(norms["layernorm"])
    for run in norms.values():
        for seed in range(1, 6):
            right = random.random(len(gold)) < 0.7
            guesses = [g if r else str(1 - int(g)) for g, r in zip(gold, right, strict=True)]
            one = run.model_copy(update={"seed": seed})
            record(one, test={"accuracy": 100 * right.mean()})
            RunFolder(one.folder()).write_outputs(guesses)
    lines = compare(norms, [("layernorm", "adanorm")])
    assert sum("on its distribution" in line for line in lines) == 2


@pytest.mark.needs("fairseq")
def test_a_gap_of_bleu_is_told_apart_into_precision_and_brevity(tmp_path: Path) -> None:
    """LayerNorm's outputs are the references less their last word, AdaNorm's with another last word."""
    norms = two_norms(tmp_path, "task=de-en")
    task = tasks.build(norms["layernorm"])
    lines = task.corpus.references("test", "words")  # type: ignore[attr-defined]
    outputs = {
        "layernorm": [line.rpartition(" ")[0] for line in lines],
        "adanorm": [f"{line.rpartition(' ')[0]} other" for line in lines],
    }
    factors = {norm: task.score_factors(side, "bleu") for norm, side in outputs.items()}
    for norm, run in norms.items():
        record(run, test={"bleu": math.prod(factors[norm].values())})
        RunFolder(run.folder()).write_outputs(outputs[norm])
    (found,) = compare_by_example(norms, [("layernorm", "adanorm")])
    short, other = (math.prod(side.values()) for side in factors.values())
    assert found.parts["precision"] < 0 < found.parts["brevity penalty"]
    assert sum(found.parts.values()) == pytest.approx(other - short)
    precise = [side["precision"] for side in factors.values()]
    brief = (factors["layernorm"]["brevity penalty"] + 1) / 2
    assert found.parts["precision"] == pytest.approx((precise[1] - precise[0]) * brief)
    said = compare(norms, [("layernorm", "adanorm")])
    assert any(line.startswith("    of it precision -") for line in said)
    assert max(map(len, said)) <= 80


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["task=enwik8", "norm=none,adanorm", "scale=smoke"], "no completed run; `adanorm run` makes it"),
        (["task=rt", "norm=adanorm"], "name two norms or more"),
        (["task=rt", "scale=smoke"], "no completed runs"),
        (["task=gaussian", "scale=smoke"], "no claim is of it"),
        (["task=rt", "norm=adanorm,adanorm"], "norm=adanorm,adanorm: adanorm is named twice"),
        (["task=rt", "norm=none,adanorm", "seed=1,1,1"], "seed 1 is named twice"),
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


def test_a_metric_that_is_no_mean_over_examples_is_not_compared(tmp_path: Path) -> None:
    runs = [
        compose_experiment(["task=enwik8", "scale=smoke", f"norm={norm}", f"runs={tmp_path}"])
        for norm in ("none", "adanorm")
    ]
    with pytest.raises(ValueError, match="no mean over examples"):
        tasks.build(runs[0]).scored([], "bpc")
