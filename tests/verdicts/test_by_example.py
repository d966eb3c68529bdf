"""Comparisons by example are made where they lack, and a plan of seeds looks at nothing without them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from adanorm import tasks
from adanorm.cli.command import dispatch
from adanorm.config.compose import compose_experiment
from adanorm.config.experiment import Experiment
from adanorm.launch.until import Followed, Plan, Run, on_record, run_until_decided
from adanorm.records.comparisons import read_comparison
from adanorm.records.folder import RunFolder
from adanorm.studies.grid import Planned
from adanorm.verdicts.by_example import bring_up_to_date, out_of_date
from tests.reporting.records import record
from tests.verdicts import known

PAIR = ("layernorm", "adanorm")
OF_32 = {"layernorm": 22, "adanorm": 26}  # right answers, in odd seeds one of AdaNorm's more


def run_of(norm: str, folder: Path) -> Experiment:
    return compose_experiment(["task=rt", "scale=smoke", f"norm={norm}", f"runs={folder}"])


def write(folder: Path, seed: int, *, outputs: bool = True) -> None:
    """Record a run of each norm, whose first answers are right."""
    task = tasks.build(run_of(PAIR[0], folder))
    gold = [task.splits.labels[target] for target in task.splits.test.targets]  # type: ignore[attr-defined]
    for norm in PAIR:
        run = run_of(norm, folder).model_copy(update={"seed": seed})
        count = OF_32[norm] + (seed % 2 if norm == "adanorm" else 0)
        record(run, test={"accuracy": 100 * count / 32}, seconds=1.0)
        if outputs:
            right, wrong = gold[:count], gold[count:]
            RunFolder(run.folder()).write_outputs([*right, *(str(1 - int(label)) for label in wrong)])


def test_a_comparison_that_lacks_or_is_of_other_seeds_is_made(tmp_path: Path) -> None:
    def stale() -> list[tuple[str, str]]:
        return out_of_date("rt", "smoke", [PAIR], folder=str(tmp_path))

    def made() -> list[list[int]]:
        return [found.record.seeds for found in bring_up_to_date("rt", "smoke", [PAIR], folder=str(tmp_path))]

    assert (stale(), made()) == ([], []), "no runs"
    write(tmp_path, 1)
    assert (stale(), made(), stale()) == ([PAIR], [[1]], [])
    write(tmp_path, 2)
    assert (stale(), made(), stale()) == ([PAIR], [[1, 2]], [])
    assert made() == []
    write(tmp_path, 3, outputs=False)
    assert (stale(), made()) == ([], []), "a run without outputs cannot be compared"


def test_seeds_until_decided_allow_for_the_noise_of_examples(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four or five of 32 examples differ, one way, in every seed: by the seeds alone that is decided."""

    def next_runs(folder: Path) -> list[Run]:
        chosen: list[Run] = []

        def fail(runs: Sequence[Run]) -> list[Planned]:
            chosen.extend(runs)
            return [Planned("", run_of(PAIR[0], folder), [])]

        plan = Plan([Followed("rt", "adanorm", "layernorm")], [1, 2, 3], most=8, at_once=1)
        run_until_decided(plan, fail, partial(on_record, scales={"rt": "smoke"}, runs=str(folder)))
        return chosen

    for seed in range(1, 7):
        write(tmp_path / "with", seed)
        write(tmp_path / "without", seed, outputs=False)
    assert next_runs(tmp_path / "without") == []
    assert "decided: RT, AdaNorm beside LayerNorm: better" in capsys.readouterr().out
    assert {run.seed for run in next_runs(tmp_path / "with")} == {7}
    comparison = known(read_comparison(*(run_of(norm, tmp_path / "with") for norm in PAIR)))
    assert comparison.seeds == [1, 2, 3, 4, 5, 6]


def test_a_study_ends_with_its_norms_compared_on_the_examples(tmp_path: Path) -> None:
    for seed in (1, 2):
        write(tmp_path / "runs", seed)
    study = tmp_path / "two.yaml"
    study.write_text("title: two\nrows: [adanorm, layernorm]\ncolumns: [rt]\nscale: smoke\nseeds: [1, 2]\n")
    assert dispatch(["study", str(study), f"runs={tmp_path / 'runs'}"]) == 0
    comparison = known(read_comparison(*(run_of(norm, tmp_path / "runs") for norm in PAIR)))
    assert (comparison.seeds, comparison.example_error > 0) == ([1, 2], True)
