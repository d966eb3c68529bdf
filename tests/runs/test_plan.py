"""A plan says what a run needs before any work, from what was measured here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from adanorm.cli import plan as command
from adanorm.cli.command import parse_arguments
from adanorm.config.compose import compose_experiment
from adanorm.config.experiment import Experiment
from adanorm.records.environment import numerics_version
from adanorm.runs import duration
from adanorm.runs.duration import Durations, Probe, recall
from adanorm.runs.plan import plan
from tests.reporting.records import record, score


@pytest.fixture
def probes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(duration, "DRY_RUNS", tmp_path)
    return tmp_path


def test_the_hours_are_those_of_the_measured_updates(probes: Path, tmp_path: Path) -> None:
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


def test_what_was_measured_is_kept_for_the_device_and_counts_in_status(
    probes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ["task=mnist", "scale=smoke", "device=cpu"]
    command.main(parse_arguments("plan", command.USAGE, settings))
    said = capsys.readouterr().out
    assert "nothing to download" in said
    assert " epochs of the data, about 1 min\n" in said
    assert all(len(line) <= 80 for line in said.splitlines())
    run = compose_experiment([*settings, "training.max_updates=1000", f"runs={probes / 'runs'}"])
    kept = recall(run)
    assert kept is not None
    assert kept.parameters > 1000
    assert Durations().seconds_left(run, "missing") == pytest.approx(1000 * kept.batch_seconds)
    other = compose_experiment([*settings, "threads=2"])
    assert recall(other) is None


def test_a_run_takes_what_finished_ones_took_in_the_median(probes: Path, tmp_path: Path) -> None:
    settings = ["task=rt", "scale=mini", f"runs={tmp_path}"]
    run = compose_experiment([*settings, "seed=9"])
    assert Durations().seconds_left(run, "missing") == 3600 * run.cost.cpu_hours
    for seed, seconds in enumerate((30.0, 600.0, 40.0), 1):
        record(
            compose_experiment([*settings, "norm=adanorm", f"seed={seed}"]), **score(75.0), seconds=seconds
        )
    assert Durations().seconds_left(run, "missing") == 40.0
    assert Durations().seconds_left(run, "done") == 0.0


def test_runs_of_older_numerics_say_how_long_only_where_no_other_does(probes: Path, tmp_path: Path) -> None:
    def finished(seed: int, seconds: float, *settings: str, **environment: int) -> None:
        run = compose_experiment(["task=rt", "scale=mini", f"seed={seed}", *settings, f"runs={tmp_path}"])
        record(run, **score(75.0), seconds=seconds)
        (run.folder() / "environment.json").write_text(json.dumps(environment))

    missing = compose_experiment(["task=rt", "scale=mini", "seed=9", f"runs={tmp_path}"])
    finished(1, 300.0)
    finished(2, 20.0, "training.lr=0.1", numerics_version=numerics_version("adanorm"))
    assert Durations().seconds_left(missing, "missing") == 300.0, "the only one of its settings"
    finished(3, 100.0, numerics_version=numerics_version("adanorm"))
    finished(4, 320.0, numerics_version=numerics_version("adanorm") - 1)
    assert Durations().seconds_left(missing, "missing") == 100.0


def test_a_run_of_more_epochs_takes_as_much_longer(probes: Path, tmp_path: Path) -> None:
    def run_of(epochs: int, seed: int, *settings: str) -> Experiment:
        chosen = ["task=rt", "scale=mini", f"training.max_epochs={epochs}", f"seed={seed}", *settings]
        return compose_experiment([*chosen, f"runs={tmp_path}"])

    for seed, seconds in enumerate((30.0, 40.0, 50.0), 1):
        record(run_of(4, seed), **score(75.0), seconds=seconds)
    assert Durations().seconds_left(run_of(4, 9), "missing") == 40.0
    assert Durations().seconds_left(run_of(20, 9), "missing") == 200.0
    record(run_of(20, 1), **score(75.0), seconds=90.0)
    assert Durations().seconds_left(run_of(20, 9), "missing") == 90.0, "of its own settings there is one"
    assert Durations().seconds_left(run_of(4, 9), "missing") == 40.0
    other = Durations().seconds_left(run_of(20, 9, "training.lr=0.1"), "missing")
    assert other == pytest.approx((150 + 200) / 2), "of 150, 200, 250 and 90"
