"""A run as a whole: what is refused before it, how it starts, and how it resumes."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from adanorm.config.experiment import Experiment
from adanorm.records import reader
from adanorm.records.environment import origin
from adanorm.records.folder import RunFolder
from adanorm.records.result import Result
from adanorm.runs.execute import describe_environment, execute, prepare, start_trainer
from adanorm.training.loop import Trainer
from adanorm.training.state import flushed_denormals
from tests.verdicts import not_none

SETTINGS = ("task=gaussian", "norm=adanorm", "scale=smoke")


@pytest.fixture
def run(smoke: Callable[..., Experiment]) -> Experiment:
    return smoke(*SETTINGS)


def result_of(run: Experiment) -> Result:
    return not_none(reader.result(run.folder()))


def test_a_run_that_does_not_fit_onto_the_disk_is_refused_before_it_trains(
    run: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10**6))
    with pytest.raises(ValueError, match=r"1 MB free, the run needs \d\d MB"):
        execute(run)
    assert not run.folder().exists()


def test_a_run_works_with_closed_standard_streams(run: Experiment) -> None:
    closed = "<&- >&- 2>&-"
    command = f"{sys.executable} -m adanorm run {' '.join(SETTINGS)} runs={run.runs} {closed}"
    assert subprocess.run(command, shell=True, check=False).returncode == 0
    assert result_of(run).status == "done"


OTHER: dict[str, Any] = {
    "commit": "0" * 40, "code": "0" * 64, "numerics_version": 999, "packages": {"torch": "1.0"},
    "device": "another processor", "arithmetic": {"instructions": "DEFAULT"},
}  # fmt: skip


def test_a_run_flushes_denormal_numbers_and_its_caller_keeps_them(run: Experiment) -> None:
    execute(run)
    assert reader.record(run.folder()).environment["arithmetic"]["denormals"] == "flushed to zero"
    assert torch.tensor(1e-39) * 0.5 > 0


@pytest.mark.parametrize("key", ["", *OTHER])
@flushed_denormals()
def test_a_record_lists_what_computed_each_start_of_a_run_where_they_differ(
    run: Experiment, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    other = {key: OTHER[key]} if key else {}
    prepared = prepare(run)
    own = origin(describe_environment(run, prepared, processes=1))
    trainer = start_trainer(run, prepared)
    trainer.checkpoints.writers = [{**own, **other}]
    run.folder().mkdir(parents=True)
    trainer.save(RunFolder(run.folder()).checkpoint)
    execute(run)
    named = key.replace("_", " ")
    line = f"warning: since the run's last start, changed: {named}; its record says so\n"
    assert (line in capsys.readouterr().err) == bool(key)
    assert result_of(run).computed_by == ([{**own, **other}, own] if key else None)


@pytest.mark.parametrize("tracked", [(True, False), (False, True), (True, True)])
def test_a_run_that_is_resumed_in_another_way_ends_with_a_record_that_counts(
    smoke: Callable[..., Experiment], monkeypatch: pytest.MonkeyPatch, tracked: tuple[bool, bool]
) -> None:
    """The best step may lie before the stop: its test scores are those of the first machine."""
    settings = ("task=rt", "norm=adanorm", "scale=smoke", "training.max_epochs=8")
    first, second = (smoke(*settings, f"track_test={track}".lower()) for track in tracked)
    evaluate = Trainer._evaluate

    def stopping(trainer: Trainer, *arguments: Any) -> None:
        if len(trainer.state.rows) == 7:
            raise KeyboardInterrupt
        evaluate(trainer, *arguments)

    monkeypatch.setattr(Trainer, "_evaluate", stopping)
    with pytest.raises(KeyboardInterrupt):
        execute(first)
    monkeypatch.undo()
    assert first.digest == second.digest
    measure = Trainer.measure
    if tracked == (True, True):  # another processor rounds otherwise

        def rounding(trainer: Trainer, split: str) -> Any:
            scores = measure(trainer, split)
            if split == "valid":
                return scores
            metrics = {name: score * (1 + 1e-9) for name, score in scores.metrics.items()}
            return scores._replace(metrics=metrics)

        monkeypatch.setattr(Trainer, "measure", rounding)
        monkeypatch.setattr("adanorm.runs.execute.origin", lambda _: {"code": "another"})
    execute(second)
    result = result_of(second)
    assert (result.status, result.best_step, result.steps) == ("done", 42, 48)
    tests = reader.record(second.folder()).content("test_metrics.jsonl")
    assert (tests is not None) == all(tracked)


def test_a_checkpoint_without_its_writer_counts_as_written_elsewhere(run: Experiment) -> None:
    trainer = start_trainer(run, prepare(run))
    run.folder().mkdir(parents=True)
    trainer.save(RunFolder(run.folder()).checkpoint)
    execute(run)
    assert {} in (result_of(run).computed_by or [])
