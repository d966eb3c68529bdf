"""A plan says what a run needs before any work, from what was measured here."""

import json
import re
import time
from pathlib import Path

import pytest

from adanorm.cli import plan as command
from adanorm.cli.command import parse_arguments
from adanorm.config.compose import compose_experiment
from adanorm.config.experiment import Experiment
from adanorm.data.catalogue import SOURCES
from adanorm.records.environment import processor
from adanorm.runs import plan
from adanorm.runs.duration import seconds_left
from adanorm.runs.plan import Probe, costs, needs
from adanorm.tasks import AnyBatch, Loss
from adanorm.training.loop import Trainer
from tests.data.sections import write_splits
from tests.reporting.records import record, score


def test_the_hours_are_those_of_the_measured_updates(tmp_path: Path) -> None:
    settings = [
        "task=en-de",
        "norm=adanorm",
        "device=cpu",
        f"data.cache={tmp_path}",
        "data.mirror=nowhere",
    ]
    run = compose_experiment(settings)
    lines = [*needs(run), *costs(run, Probe(0.9, 5_000_000_000, 210_000_000))]
    line_of = {line.split()[0]: line for line in lines}
    assert "wmt16-en-de-parts: 4 of 4 files, 4 of unpublished size" in line_of["downloads"]
    assert "4,506,969 pairs" in line_of["preparation"]
    assert line_of["update"].endswith("8 batches of 4,096 tokens; up to 8 GPUs take whole batches")
    assert line_of["expected"].endswith("21 hours on one GPU (fp32)")
    assert line_of["time"].split(";")[0].endswith("100,000 updates of 7.2 s: 8 days on one process")
    # Two checkpoints with Adam's moments, the best weights and ten to average, of 4 bytes each.
    assert "disk         16.0 GB for checkpoints of 210,000,000 parameters" in line_of["disk"]
    assert line_of["memory"] == "memory       5.0 GB at the peak of a batch"


def test_the_plan_of_a_study_sums_the_hours_of_its_missing_runs_for_a_gpu_and_for_two(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["study=table4", "tasks=de-en,en-vi", "seed=1,2", f"runs={tmp_path}", "workers=2"]
    command.main(parse_arguments("plan", command.USAGE, words))
    text = " ".join(capsys.readouterr().out.split())
    runs = [compose_experiment([f"task={task}", "scale=paper"]) for task in ("de-en", "en-vi")]
    hours = 4 * sum(run.cost.cuda_hours for run in runs)  # two norms by two seeds
    assert "8 runs, 0 on record, 8 missing" in text
    assert "iwslt14-de-en" in text
    assert "iwslt15-en-vi" in text
    assert f"{hours:.0f} hours on one GPU (fp32), at best {hours / 2:.0f} hours on 2 GPUs" in text
    command.main(parse_arguments("plan", command.USAGE, [*words, "precision=bf16"]))
    text = " ".join(capsys.readouterr().out.split())
    assert f"{60 * 4 * (0.18 + 0.09):.0f} min on one GPU (bf16)" in text
    with pytest.raises(ValueError, match=r"workers=2 plans a study on two GPUs"):
        command.main(parse_arguments("plan", command.USAGE, [*words, "gpus=2"]))
    with pytest.raises(ValueError, match="unknown key 'norm'"):
        command.main(parse_arguments("plan", command.USAGE, ["study=table4", "norm=adanorm"]))


def test_a_plan_times_an_update_and_prints_lines_of_80_columns(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command.main(
        parse_arguments("plan", command.USAGE, ["task=mnist", "scale=smoke", "device=cpu"])
    )
    printed = capsys.readouterr().out
    assert "nothing to download" in printed
    text = " ".join(printed.split())
    assert re.search(
        r"time \d+ epochs of the data, \d+ updates of (?!0 )\d\S* s: 1 min on one process", text
    )
    assert re.search(r"for checkpoints of \d,\d+ parameters", text)
    assert all(len(line) <= 80 for line in printed.splitlines())


def test_a_plan_names_files_and_device_before_it_trains_one_batch_at_a_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[int] = []
    printed = ""
    update = Trainer.update

    def spy(trainer: Trainer, micro_batches: list[AnyBatch]) -> Loss:
        nonlocal printed
        if not trained:
            printed = capsys.readouterr().out
        trained.append(len(micro_batches))
        return update(trainer, micro_batches)

    monkeypatch.setattr(Trainer, "update", spy)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0})
    settings = ["task=rt", "device=cpu", "data.mirror=nowhere", f"data.cache={tmp_path}"]
    settings += ["model.layers=1", "model.dim=8", "model.ffn_dim=8", "training.accumulate=4"]
    command.main(parse_arguments("plan", command.USAGE, settings))
    text = " ".join(printed.split())
    assert "rt: 3 of 3 files, " in text
    assert all(file.name in text for file in SOURCES["rt"].files)
    assert "no GPU: 1 CPU core update 4 batches of" in text
    assert trained == [1, 1], "the first warms up"


def test_a_plan_says_while_it_times_a_batch_how_long_that_has_taken(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "TICK", 0.01)
    with plan.ticking("timing"):
        time.sleep(0.1)
    first, second, *_ = capsys.readouterr().err.splitlines()
    assert (first, second.strip()) == ("timing", "0 s so far")


def test_a_plan_times_updates_of_made_up_data_before_any_are_here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ["task=rt", "device=cpu", "data.mirror=nowhere", f"data.cache={tmp_path}"]
    settings += ["model.layers=1", "model.dim=8", "model.ffn_dim=8"]
    command.main(parse_arguments("plan", command.USAGE, settings))
    line = r"which are not here to be counted, in updates of (?!0 )\d\S* s; the"
    assert re.search(line, " ".join(capsys.readouterr().out.split()))


def test_the_updates_of_epochs_are_counted_in_the_runs_own_data_and_take_the_time_of_the_probe(
    tmp_path: Path,
) -> None:
    own = [
        *write_splits(tmp_path, "a\tone two three\nb\tfour five six\n" * 4),
        "data.batch_tokens=16",
    ]
    for settings, line in (
        (
            [*own, "training.max_epochs=7"],
            "7 epochs of the data, 14 updates of 90 s: 21 min on one process;",
        ),
        (
            ["data.mirror=nowhere", f"data.cache={tmp_path}"],
            "10 epochs of the data, which are not here to be counted, in updates of 90 s; the",
        ),
    ):
        run = compose_experiment(["task=rt", "scale=paper", "device=cpu", *settings])
        assert line in costs(run, Probe(90.0, 1, 1))[-1]


def run_of(runs: Path, epochs: int, seed: int, norm: str = "layernorm") -> Experiment:
    chosen = [
        "task=rt",
        "scale=mini",
        f"norm={norm}",
        f"training.max_epochs={epochs}",
        f"seed={seed}",
    ]
    return compose_experiment([*chosen, f"runs={runs}"])


def test_the_time_of_a_run_is_the_median_of_finished_runs_scaled_by_epochs(tmp_path: Path) -> None:
    run = run_of(tmp_path, 4, 9)
    assert seconds_left(run, "missing") == 3600 * run.cost.cpu_hours
    for seed, seconds in enumerate((30.0, 600.0, 40.0), 1):
        record(
            run_of(
                tmp_path,
                4,
                seed,
                "adanorm",
            ),
            **score(75.0),
            seconds=seconds,
        )
    assert seconds_left(run, "missing") == 40.0
    assert seconds_left(run_of(tmp_path, 20, 9), "missing") == 200.0
    assert seconds_left(run, "done") == 0.0
    record(
        run_of(tmp_path, 4, 4, "adanorm"),
        **score(75.0),
        seconds=3287.0,
        cpu_seconds=36.0,
    )
    assert seconds_left(run, "missing") == 38.0, "of the fourth the processor's time"
    here = run_of(tmp_path, 4, 5, "adanorm")
    environment = json.dumps({"device": processor()}).encode()
    record(
        here,
        **score(75.0),
        seconds=8.0,
        files={"environment.json": environment},
    )
    assert seconds_left(run, "missing") == 8.0, "those of this machine count before others"


def test_the_time_left_of_a_running_run_follows_from_its_pace_so_far(tmp_path: Path) -> None:
    record(run_of(tmp_path, 4, 1), **score(75.0), seconds=40.0)
    run = run_of(tmp_path, 4, 2)
    assert seconds_left(run, "running") == 40.0, "before its first evaluation"
    run.folder().mkdir(parents=True)
    (run.folder() / "metrics.jsonl").write_text('{"epoch": 1, "update": 9, "seconds": 70.0}\n')
    assert seconds_left(run, "running") == 210.0
    with (run.folder() / "metrics.jsonl").open("a") as file:
        file.write('{"epoch": 2, "upd')
    assert seconds_left(run, "running") == 40.0, "a line that is being written"
