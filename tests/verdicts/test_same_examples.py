"""A comparison of two norms by test examples is a function of their records."""

import json
import re
from collections.abc import Callable, Sequence
from itertools import combinations, product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from scipy.stats import t as student

from adanorm.cli.compare import compare
from adanorm.config.experiment import Experiment
from adanorm.config.paths import RUNS
from adanorm.records import reader
from adanorm.records.result import Result
from adanorm.verdicts.cell import cell_of
from adanorm.verdicts.evidence import Evidence, variance_of
from adanorm.verdicts.pair import pair
from adanorm.verdicts.preregistration import preregistration
from adanorm.verdicts.same_examples import ByExample, compare_examples
from tests.reporting.records import contents_of, edit, put, record, run_in
from tests.verdicts import not_none

PAIR = ("layernorm", "adanorm")
OF_32 = {"layernorm": 22, "adanorm": 26}  # right answers, in odd seeds one of AdaNorm's more


def run_of(norm: str, folder: Path, seed: int = 1, task: str = "rt") -> Experiment:
    return run_in(folder, f"task={task}", "scale=smoke", f"norm={norm}", seed=seed)


def write(folder: Path, seeds: Sequence[int], *, counted: bool = True) -> None:
    """Record a run of each norm, whose first answers are right."""
    for (norm, right), seed in product(OF_32.items(), seeds):
        right_here = right + (seed % 2 if norm == "adanorm" else 0)
        of = {"accuracy": [[int(n < right_here)] for n in range(32)]} if counted else None
        record(
            run_of(norm, folder, seed),
            counted=of,
            test={"accuracy": 100 * right_here / 32},
            seconds=1.0,
        )


def comparison(folder: Path, seeds: Sequence[int]) -> ByExample | None:
    return compare_examples(
        [[run_of(norm, folder, seed) for seed in seeds] for norm in PAIR], "accuracy"
    )


@pytest.mark.records
def test_every_kept_run_with_outputs_has_counts_that_make_its_score() -> None:
    """A verdict without the noise of examples, or with that of other runs, may be another."""
    for one in reader.records(RUNS):
        if (
            one.has("predictions.txt.gz")
            and isinstance(one.ended, Result)
            and one.ended.status == "done"
        ):
            assert one.counts, one.folder


def test_gap_and_errors_come_from_examples_that_differ_and_the_digest_from_outputs(
    tmp_path: Path,
) -> None:
    write(tmp_path, [2, 4])
    one = not_none(comparison(tmp_path, [2, 4]))
    assert (one.seeds, one.gaps, one.noise.examples) == ((2, 4), (12.5, 12.5), 32)
    # Seeds agree, so that all the error is the examples': four of them differ, all one way.
    assert one.noise.example_error == pytest.approx(100 * (0.125 * 0.875 / 31) ** 0.5)
    assert one.noise.seed == pytest.approx(-one.noise.rest / 32)
    assert one.spreads == (None, None), "fewer than five seeds"
    assert not_none(comparison(tmp_path, [2, 4])).outputs == one.outputs
    record(run_of("adanorm", tmp_path, 2), counted={"accuracy": [[int(n > 8)] for n in range(32)]})
    again = not_none(comparison(tmp_path, [2, 4]))
    assert again.outputs != one.outputs
    assert again.gaps != one.gaps


def test_seeds_of_two_series_are_not_compared_together(tmp_path: Path) -> None:
    """Fresh seeds on record change nothing in the answer of the first plan."""
    write(tmp_path, range(1, 6))
    before = comparison(tmp_path, range(1, 6))
    assert None not in not_none(before).spreads, "from five seeds on"
    write(tmp_path, [41, 42, 101])
    assert comparison(tmp_path, range(1, 6)) == before
    assert not_none(comparison(tmp_path, [41, 42])).seeds == (41, 42)
    with pytest.raises(ValueError, match="seeds 2, 41: of several series"):
        comparison(tmp_path, [2, 41])


def test_named_seeds_are_read_at_one_look_and_other_seeds_do_not_count(tmp_path: Path) -> None:
    seeds = (1, 2, 3, 4)
    write(tmp_path, seeds)
    runs = {norm: run_of(norm, tmp_path) for norm in PAIR}
    lines = compare(runs, [PAIR], seeds=seeds)
    gaps = not_none(comparison(tmp_path, seeds)).gaps
    numbers = [float(text) for text in re.findall(r"[-+]?\d+\.\d+", lines[2])]
    error = (numbers[2] - numbers[1]) / 2 / student.isf(0.025, 3)
    # Seeds alone have this error; examples add theirs.
    assert error > np.std(gaps, ddof=1) / 2
    assert error < 1.01 * np.hypot(np.std(gaps, ddof=1) / 2, 100 * (0.125 * 0.875 / 31) ** 0.5)
    write(tmp_path, range(5, 9))
    assert compare(runs, [PAIR], seeds=seeds) == lines


def swap(folder: Path, name: str) -> None:
    first, second = (run_of(norm, folder).folder() for norm in PAIR)
    contents = contents_of(first)[name], contents_of(second)[name]
    put(second, name, contents[0])
    put(first, name, contents[1])


def edit_run(folder: Path, **values: Any) -> None:
    edit(run_of("adanorm", folder).folder(), **values)


def recount(folder: Path, accuracy: list[str]) -> None:
    path = run_of("adanorm", folder).folder()
    counts = json.loads(contents_of(path)["test_counts.json"])
    content = json.dumps({**counts, "counts": {"accuracy": accuracy}}).encode()
    put(path, "test_counts.json", content)


TRUE_CHECKSUMS: dict[str, Callable[[Path], object]] = {
    "its examples make 84.375": lambda folder: edit_run(folder, test={"accuracy": 90.0}),
    "precision is 'bf16', its config.yaml says 'fp32'": lambda folder: edit_run(
        folder, precision="bf16"
    ),
    "own_data is True, its config.yaml says False": lambda folder: edit_run(folder, own_data=True),
    "test_counts.json is of other outputs": lambda folder: swap(folder, "predictions.txt.gz"),
    "has no counts of test examples": lambda folder: recount(folder, ["-1 2"]),
}


@pytest.mark.parametrize("reason", TRUE_CHECKSUMS)
def test_edited_or_swapped_files_are_noticed_under_true_checksums(
    tmp_path: Path, reason: str
) -> None:
    write(tmp_path, [1])
    TRUE_CHECKSUMS[reason](tmp_path)
    with pytest.warns(UserWarning, match=f"is not counted: .*{reason}"):
        assert comparison(tmp_path, [1]) is None


def test_runs_that_counted_nothing_one_example_or_other_test_sets_have_no_comparison(
    tmp_path: Path,
) -> None:
    write(tmp_path, [1], counted=False)
    write(tmp_path, [2])
    record(run_of("adanorm", tmp_path, 2), counted={"accuracy": [[1], [0]]})
    for norm, seed in product(PAIR, (3, 4)):
        record(run_of(norm, tmp_path, seed), counted={"accuracy": [[1]]})
    assert [comparison(tmp_path, seeds) for seeds in ([], [1], [2], [3], [3, 4])] == [None] * 5


def test_a_later_plan_pools_the_noise_of_examples_over_all_pairs_of_norms(tmp_path: Path) -> None:
    random, cells = np.random.default_rng(0), {}
    for norm in (*PAIR, "none", "detachnorm"):
        seeds = {"detachnorm": (1,), "none": (1, 2, 3)}.get(norm, (1, 2, 3, 4))
        runs = [run_of(norm, tmp_path, seed) for seed in seeds]
        for run in runs:
            record(run, counted={"accuracy": (random.random((32, 1)) < 0.8).astype(int).tolist()})
        cells[norm] = cell_of(runs[0], runs)
    # One seed of a norm does not tell its examples' noise from its own: such pairs are left out.
    # A fourth seed waits for the second look.
    pairs = [[cells[norm].runs[:3] for norm in two] for two in combinations((*PAIR, "none"), 2)]
    variances = [not_none(compare_examples(two, "accuracy")).noise.example for two in pairs]
    records = Evidence(preregistration().plan("small", "rt"), cells, variance_of(cells))
    noise = not_none(pair(records, *PAIR).comparison).example_error
    assert noise == pytest.approx((fmean(variances) / 32) ** 0.5)
    assert min(variances) < 0 < fmean(variances), "only the mean is held to nil"


def test_a_gap_of_bleu_is_split_into_precision_and_brevity(tmp_path: Path) -> None:
    """AdaNorm's outputs have one word more than LayerNorm's, a wrong one."""
    runs = [run_of(norm, tmp_path, task="de-en") for norm in PAIR]
    for run, length in zip(runs, (9, 10), strict=True):
        record(run, counted={"bleu": [[9, 8, 7, 6, length, 10]] * 4})
    one = not_none(compare_examples([[run] for run in runs], "bleu"))
    assert one.parts["precision"] < 0 < one.parts["brevity penalty"]
    scores = [not_none(reader.result(run.folder())).test_score("bleu") for run in runs]
    assert sum(one.parts.values()) == pytest.approx(scores[1] - scores[0])


def test_a_comparison_says_gap_errors_spreads_and_the_outputs_that_it_is_of(tmp_path: Path) -> None:
    write(tmp_path, range(1, 6))
    runs = {norm: run_of(norm, tmp_path) for norm in PAIR}
    lines = compare(runs, [PAIR])
    assert lines[0] == "rt smoke, test accuracy"
    assert lines[1] == "  adanorm over layernorm, seeds 1 to 5, 32 examples"
    assert lines[3].startswith("    standard errors: examples 6.")
    assert sum("without the noise" in line for line in lines) == 2
    assert lines[-1].startswith("    digest of the test outputs: ")
    write(tmp_path, [41, 42])
    assert compare(runs, [PAIR]) == lines
    fresh = compare(runs, [PAIR], seeds=[41, 42])
    assert fresh[1] == "  adanorm over layernorm, seeds 41, 42, 32 examples"
    assert max(map(len, [*lines, *fresh])) <= 80
    with pytest.raises(ValueError, match="rt: no run has the loss of two or more test examples"):
        compare(runs, [PAIR], metric="loss")
    write(tmp_path, [6], counted=False)
    with pytest.raises(ValueError, match="has not counted its test examples"):
        compare(runs, [PAIR])
