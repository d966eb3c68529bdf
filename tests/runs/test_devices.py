"""GPUs that are asked for: one line where they are not there; processes that end together."""

import os
import re
import signal
from pathlib import Path

import pytest
import torch

from adanorm.config.compose import compose_experiment
from adanorm.records import environment
from adanorm.records.environment import check_devices
from adanorm.runs.execute import choose_device
from tests import commands
from tests.conftest import Command
from tests.studies.test_launch import processes, wait_until


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which a driver says its version, on a machine whose torch sees no device."""
    monkeypatch.setattr(environment, "DRIVER", tmp_path / "version")
    monkeypatch.setattr(environment, "CONTROL_DEVICE", tmp_path / "version")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return tmp_path / "version"


def test_a_gpu_that_torch_cannot_use_is_one_line_with_both_versions_and_the_remedy(
    driver: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_devices(1)
    text = rf"torch sees no CUDA device: torch {re.escape(torch.__version__)} is built for .*"
    with pytest.raises(
        ValueError, match=rf"{text} driver is not installed; install .*; device=cpu computes"
    ):
        check_devices(8)
    driver.write_text("535.54.03\n")
    with pytest.raises(
        ValueError, match=rf"{text} driver is 535.54.03; install .*; device=cpu computes"
    ):
        check_devices(1)
    # A container that was given no GPU.
    monkeypatch.setattr(environment, "CONTROL_DEVICE", driver.parent / "none")
    check_devices(1)
    monkeypatch.setattr(environment, "CONTROL_DEVICE", driver)
    for hidden in ("", "NoDevFiles"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
        check_devices(1)


def test_more_gpus_than_devices_are_refused_and_device_cpu_overrides(
    driver: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    run = compose_experiment(["task=mnist", "scale=smoke"])
    with pytest.raises(ValueError, match="GPUs asked for"):
        choose_device(run)
    assert choose_device(run.model_copy(update={"device": "cpu"})) == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    with pytest.raises(ValueError, match="gpus=8: this machine has 4 CUDA devices"):
        choose_device(run)


@pytest.mark.parametrize(
    "arguments",
    [("run", "task=en-de", "scale=auto", "gpus=8"), ("study", "mini-all", "gpus=8", "runs=RUNS")],
)
def test_gpus_on_a_machine_without_gpus_are_refused_in_one_line_with_code_2(
    tmp_path: Path, command: Command, arguments: tuple[str, ...]
) -> None:
    if torch.cuda.device_count() >= 8:
        pytest.skip("this machine has eight")
    done = command(*(text.replace("RUNS", str(tmp_path / "runs")) for text in arguments))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "device=cpu" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_only_one_of_several_processes_prints_a_mistake(tmp_path: Path) -> None:
    ranks, run = [], ("adanorm", "run", "task=mnist", "norm=nonorm")
    with (tmp_path / "errors").open("w") as errors:
        for rank in ("0", "1", "2"):
            variables = {
                "RANK": rank,
                "TORCHELASTIC_ERROR_FILE": str(tmp_path / rank / "error.json"),
            }
            ranks.append(
                commands.start(*run, environment={**os.environ, **variables}, errors=errors)
            )
    assert [rank.wait(60) for rank in ranks] == [2, 2, 2]
    assert (tmp_path / "errors").read_text().count("error: unknown norm 'nonorm'") == 1


def test_two_processes_report_a_mistake_with_the_code_and_the_line_of_a_single_process(
    tmp_path: Path, command: Command
) -> None:
    run = (
        "run",
        "task=gaussian",
        "scale=smoke",
        f"runs={tmp_path}",
        "norm.placement=[zzz]",
        "device=cpu",
    )
    alone, two = command(*run), command(*run, "gpus=2")
    assert (alone.returncode, two.returncode) == (2, 2)
    assert alone.stderr.splitlines()[-1] in two.stderr.splitlines()
    assert two.stderr.count("\n") == alone.stderr.count("\n"), two.stderr


@pytest.mark.usefixtures("_quick_start")
def test_a_sweep_under_two_processes_makes_one_run_after_the_other(
    tmp_path: Path, command: Command
) -> None:
    """All runs share torchrun's one store; no run may find what an earlier one wrote there."""
    settings = (
        "task=gaussian",
        "scale=smoke",
        f"runs={tmp_path}",
        "gpus=2",
        "device=cpu",
        "seed=1,2",
    )
    done = command("run", "-m", *settings)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("*/*/*/record.jsonl"))) == 2


def test_killing_torchrun_ends_its_processes(tmp_path: Path) -> None:
    settings = ("task=gaussian", "scale=smoke", "training.max_epochs=4000", f"runs={tmp_path}")
    torchrun = commands.start(
        "adanorm",
        "run",
        *settings,
        "gpus=2",
        "device=cpu",
    )
    wait_until(lambda: torchrun.poll() is not None or any(tmp_path.glob("*/*/*/checkpoint.pt")))
    assert len(processes(str(tmp_path))) == 3
    os.kill(torchrun.pid, signal.SIGKILL)
    wait_until(lambda: processes(str(tmp_path)) == [])
