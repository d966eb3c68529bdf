"""A plan says what a run needs before any work, from what was measured here."""

from __future__ import annotations

from pathlib import Path

import pytest

from adanorm.cli import plan as command
from adanorm.cli.command import parse_arguments
from adanorm.config.compose import compose_experiment
from adanorm.config.experiment import Experiment
from adanorm.runs.duration import Durations
from adanorm.runs.plan import Probe, measure, plan
from tests.reporting.records import record, score


def test_the_hours_are_those_of_the_measured_updates(tmp_path: Path) -> None:
    settings = ["task=en-de", "norm=adanorm", "device=cpu", f"data.cache={tmp_path}", "data.mirror=nowhere"]
    run = compose_experiment(settings)
    lines = plan(run, Probe(0.9, 5_000_000_000, 210_000_000))
    said = {line.split()[0]: line for line in lines}
    assert "wmt16-en-de-parts: 4 of 4 files, 4 of unpublished size" in said["downloads"]
    assert "4,506,969 pairs" in said["preparation"]
    assert said["update"].endswith("8 batches of 4,096 tokens; up to 8 processes take whole batches")
    assert said["time"].split(";")[0].endswith("100,000 updates of 7.2 s: 8 days on one process")
    # Two checkpoints with Adam's moments, the best weights and ten to average, of 4 bytes each.
    assert "disk         16.0 GB for checkpoints of 210,000,000 parameters" in said["disk"]
    assert said["memory"] == "memory       5.0 GB at the peak of a batch"


def test_a_plan_times_an_update_and_prints_lines_of_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    settings = ["task=mnist", "scale=smoke", "device=cpu"]
    command.main(parse_arguments("plan", command.USAGE, settings))
    printed = capsys.readouterr().out
    assert "nothing to download" in printed
    assert " epochs of the data, about 1 min\n" in printed
    assert all(len(line) <= 80 for line in printed.splitlines())
    probe = measure(compose_experiment([*settings, "updates=1"]))
    assert probe.parameters > 1000
    assert probe.batch_seconds > 0


def test_a_run_takes_what_finished_ones_took_in_the_median_in_proportion_to_its_epochs(
    tmp_path: Path,
) -> None:
    def run_of(epochs: int, seed: int, *settings: str) -> Experiment:
        chosen = ["task=rt", "scale=mini", f"training.max_epochs={epochs}", f"seed={seed}", *settings]
        return compose_experiment([*chosen, f"runs={tmp_path}"])

    run = run_of(4, 9)
    assert Durations().seconds_left(run, "missing") == 3600 * run.cost.cpu_hours
    for seed, seconds in enumerate((30.0, 600.0, 40.0), 1):
        record(run_of(4, seed, "norm=adanorm"), **score(75.0), seconds=seconds)
    assert Durations().seconds_left(run, "missing") == 40.0
    assert Durations().seconds_left(run_of(20, 9), "missing") == 200.0
    assert Durations().seconds_left(run, "done") == 0.0
