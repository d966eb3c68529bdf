"""Observing a run changes nothing in it, resumes after an interruption and names mistakes."""

import json
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from adanorm.analyses.along_training import along_training, make, observer, updates
from adanorm.analyses.observers import gradients
from adanorm.analyses.spec import AnalysisRecord, load_analysis
from adanorm.analyses.step import Step, Values
from adanorm.config.paths import CONF, choices
from adanorm.records import reader
from adanorm.records.folder import RunFolder
from adanorm.records.result import AnalysisResult
from tests.analyses.conftest import Records, begin, observed
from tests.conftest import Command


class CutError(Exception):
    """Stands for a kill between two updates."""


def sums(step: Step) -> Values:
    """Observe in every way a Step offers: losses and gradients before and after, moved weights."""
    with step.preserved_state():
        before = step.loss_and_gradient()[0]
        for parameter in step.model.parameters():
            parameter.data += 0.1
        moved = step.loss_and_gradient()[0]
    update = step.update()
    with step.preserved_state():
        after = step.loss_and_gradient()[0]
    return {
        "": {
            "before": before,
            "update": update.total.item() / update.units,
            "moved": moved,
            "after": after,
        }
    }


def weights(record: AnalysisRecord, observe: Any) -> dict[str, Tensor]:
    trainer, sites = begin(record)
    list(updates(record.analysis, trainer, sites, observe))
    assert all(not module._forward_pre_hooks for module in trainer.model.modules())
    assert all(parameter.requires_grad for parameter in trainer.model.parameters())
    return {**trainer.model.state_dict(), "random": torch.get_rng_state()}


def unobserved(step: Step, **options: Any) -> Values:
    step.update()
    return {}


def result(record: AnalysisRecord) -> AnalysisResult:
    ended = reader.record(record.folder()).ended
    assert isinstance(ended, AnalysisResult)
    return ended


FEW = {"covariate-shift": {"steps": "3", "every": "3"}, "landscape": {"probes": "2"}}
FEW |= {"time-steps": {"steps": "4", "back": "5"}}


@pytest.mark.parametrize(
    ("name", "task", "norm"),
    [
        *(("gradients", task, "adanorm") for task in ("mnist", "rt", "ptb", "enwik8", "de-en")),
        *(("landscape", *run) for run in (("mnist", "batchnorm-noisy"), ("rt", "adanorm"))),
        *(("time-steps", f"enwik8-{cell}", "adanorm") for cell in ("lstm", "gru", "rnn")),
        ("landscape", "enwik8", "powernorm"),
        ("covariate-shift", "gaussian", "batchnorm"),
        ("covariate-shift", "cifar10", "batchnorm-noisy"),
        ("covariate-shift", "mnist", "weightnorm"),
        ("covariate-shift", "rt", "layernorm"),
        ("covariate-shift", "enwik8", "powernorm"),
        ("covariate-shift", "de-en", "adanorm"),
    ],
)
def test_an_observer_changes_neither_weights_nor_random_numbers(
    name: str, task: str, norm: str, record: Records
) -> None:
    entry = record(
        name,
        f"task={task}",
        f"norm={norm}",
        settings=FEW.get(name, {"steps": "4"}),
    )
    plain = weights(entry, unobserved)
    for after in (
        weights(entry, lambda step, **options: sums(step)),
        weights(entry, observer(name).observe),
    ):
        assert all(torch.equal(after[name], plain[name]) for name in plain)


@pytest.mark.parametrize("task", ["mnist", "rt", "enwik8"])
def test_a_steps_loss_is_that_of_its_update_and_falls_with_it(task: str, record: Records) -> None:
    rows = observed(
        record("gradients", f"task={task}", "norm=layernorm"), lambda step, **_: sums(step)
    )
    assert [row["update"] for row in rows] == [2, 4, 6]
    for values in (row["values"][""] for row in rows):
        assert values["before"] == pytest.approx(values["update"], rel=1e-6)
        assert values["moved"] != values["before"]
        assert values["after"] < values["update"]


@pytest.mark.parametrize("cut_at", [1, 3, 4])
def test_a_record_cut_off_resumes_to_the_same_rows(
    cut_at: int, tmp_path: Path, record: Records
) -> None:
    overrides = ("task=rt", "norm=adanorm", "checkpoint_minutes=0.0000001")  # after each update
    whole, cut = (
        record("gradients", *overrides, runs=tmp_path / name) for name in ("whole", "cut")
    )
    make(whole)

    def cutting(step: Step, **options: Any) -> Values:
        if step.trainer.state.update >= cut_at:
            raise CutError
        return gradients.observe(step, **options)

    with pytest.raises(CutError):
        along_training(cutting, cut)
    assert reader.record(cut.folder()).ended is None
    # A row written after the checkpoint is made again.
    with (cut.folder() / "rows.jsonl").open("a") as file:
        file.write(json.dumps({"update": 99, "values": {}}) + "\n")
    torch.rand(5)
    make(cut)
    rows = [reader.record(entry.folder()).rows("rows.jsonl") for entry in (cut, whole)]
    assert rows[0] == rows[1]
    assert result(cut) == result(whole)
    assert not (cut.folder() / "checkpoint.pt").exists()


def test_the_score_of_a_record_is_that_of_validation_at_the_end(record: Records) -> None:
    make(entry := record("noisy-batchnorm", "task=rt", "norm=layernorm"))
    trainer, sites = begin(entry)
    list(updates(entry.analysis, trainer, sites, unobserved))
    valid, ended = trainer.measure("valid").metrics, result(entry)
    assert ended.valid == valid != trainer.measure("test").metrics
    assert ended.summary["score"] == valid["accuracy"]


def test_a_run_that_diverges_is_a_result(record: Records) -> None:
    make(entry := record("gradients", "task=mnist", "norm=none", "training.lr=1e30"))
    assert result(entry).status == "diverged"
    assert "not finite" in (result(entry).diverged or "")


def test_a_setting_makes_another_record_and_a_title_does_not(record: Records) -> None:
    run = ("gradients", "task=rt", "norm=adanorm")
    entry, *changed = (
        record(*run, settings=more) for more in ({}, {"every": "3"}, {"tolerance": "0.5"})
    )
    assert entry.folder().parts[-4:-1] == ("gradients", "rt", "adanorm")
    assert (
        len({version.folder() for version in (entry, *changed, record(*run, "training.lr=0.5"))})
        == 4
    )
    renamed = AnalysisRecord(
        entry.analysis.model_copy(update={"title": "another"}), entry.experiment
    )
    assert renamed.folder() == entry.folder()


SMALL = ("gradients", "task=rt", "norms=none,layernorm-simple", "scale=smoke", "steps=4", "every=2")


def test_analyze_makes_missing_records_and_writes_table_and_figure(
    tmp_path: Path, command: Command
) -> None:
    first, second = (command("analyze", *SMALL, f"runs={tmp_path}") for _ in range(2))
    assert first.returncode == 0, first.stderr
    assert "2 records, 2 to run" in first.stdout
    names = sorted(path.name for path in (tmp_path / "tables").iterdir())
    assert names == ["analysis-gradients.csv", "analysis-gradients.md"]
    assert len(list((tmp_path / "figures").glob("analysis-gradients-rt.*"))) == 2
    assert "2 records, 0 to run" in second.stdout
    lines = [line for line in first.stdout.splitlines()[1:] if not line.startswith("[")]
    assert second.stdout.splitlines()[1:] == lines


def test_analyze_waits_for_a_record_of_another_process_and_makes_the_others_meanwhile(
    tmp_path: Path, record: Records, command: Command
) -> None:
    settings, norms = {"steps": "4", "every": "2"}, ("none", "layernorm-simple")
    first, second = (
        record(
            "gradients",
            "task=rt",
            f"norm={norm}",
            settings=settings,
        )
        for norm in norms
    )
    with ThreadPoolExecutor() as threads:
        with RunFolder(first.folder()).locked():
            ended = threads.submit(command, "analyze", *SMALL, f"runs={tmp_path}")
            while not (reader.is_complete(second.folder()) or ended.done()):
                time.sleep(0.05)
            assert not reader.is_complete(first.folder())
        done = ended.result()
    assert done.returncode == 0, done.stderr
    lines = [line.partition(" rt ")[2] for line in done.stdout.splitlines() if line.startswith("[")]
    assert lines == ["none seed 1", "layernorm-simple seed 1", "none seed 1"]
    assert "none seed 1\n  held by another process\n" in done.stdout
    assert reader.is_complete(first.folder())


def test_an_analysis_without_its_module_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(CONF, tmp_path / "conf")
    (tmp_path / "conf/analysis/gradients.yaml").rename(tmp_path / "conf/analysis/output-size.yaml")
    for module in ("analyses.spec", "config.paths"):
        monkeypatch.setattr(f"adanorm.{module}.CONF", tmp_path / "conf")
    with pytest.raises(
        ValueError, match=r"^analysis output-size: has no module .*\.observers\.output_size$"
    ):
        load_analysis("output-size")


def test_every_analysis_in_conf_has_its_observer() -> None:
    for analysis in map(load_analysis, choices("analysis")):
        assert hasattr(observer(analysis.name), "observe" if analysis.tasks else "make")
