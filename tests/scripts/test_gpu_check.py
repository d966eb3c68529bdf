"""The check of a GPU machine, as far as it can be tested without one."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from adanorm import tasks
from adanorm.config.paths import PROJECT
from adanorm.norms.family import ClosedFormNorm
from adanorm.runs.execute import prepare, start_trainer
from scripts import gpu_measure
from scripts.gpu_check import Facts, checks, in_words, main, measurement, run_check
from scripts.gpu_measure import SAME, lost, speed
from scripts.processes import experiment_of, largest_difference, losses

# On SIGTERM it ends the process that it has started; if killed, it leaves that process behind.
STARTS_AS_TORCHRUN = """
import signal, subprocess, sys
process = subprocess.Popen(["sleep", "40"], start_new_session=True)
signal.signal(signal.SIGTERM, lambda *_: (process.kill(), sys.exit(1)))
process.wait()
"""
SPEED = {"hours": 9.04, "peak_gb": 31.0, "milliseconds": 100.0, "waits": 1}


@pytest.mark.usefixtures("_quick_start")
def test_without_cuda_gpu_check_runs_what_it_can_and_says_why_with_code_2(tmp_path: Path) -> None:
    output = tmp_path / "gpu-check.json"
    done = subprocess.run(
        [sys.executable, "-m", "scripts.gpu_check", f"output={output}"],
        cwd=PROJECT, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    content = json.loads(output.read_text())
    assert done.stderr.splitlines() == [f"gpu-check: {content['reason']}"]
    assert content["reason"].startswith("torch sees no CUDA device: torch ")
    assert (content["devices"], content["cores"] > 0, content["memory_gb"] > 0) == (0, True, True)
    assert [(check["verdict"], check["difference"]) for check in content["checks"]] == [("ok", 0)]


def test_a_check_says_what_became_of_a_command_and_what_it_measured() -> None:
    def checked(code: str, seconds: float = 60) -> Facts:
        return run_check("one", (sys.executable, "-c", code), seconds=seconds)

    assert (
        checked("print('noise'); print('{\"hours\": 2}')").items()
        > {"verdict": "ok", "hours": 2}.items()
    )
    assert checked("print('{\"ok\": false}')")["verdict"] == "FAIL"
    failed = checked("print('a'); raise SystemExit('why')")
    assert (failed["why"], failed["output"]) == ("code 1: why", "a\nwhy")
    assert checked("import time; time.sleep(60)", seconds=1)["why"] == "no end after 1 s"
    assert checked(STARTS_AS_TORCHRUN, seconds=3)["seconds"] < 30
    assert run_check("late", measurement("speed", "rt"), seconds=0)["verdict"] == "skipped"


def test_several_devices_are_all_used_and_one_has_no_checks_of_processes() -> None:
    assert not {"ranks", "lost process", "all-reduce"} & checks(1).keys()
    commands = checks(6)
    assert commands["ranks"][-3:] == ["ranks", "cuda", "6"]
    assert [name for name in commands if " on " in name] == [
        f"speed: en-de bf16 on {n}" for n in (2, 4, 6)
    ]
    assert "--nproc-per-node=6" in commands["all-reduce"]
    kinds = [name.partition(":")[0] for name in commands]
    assert kinds[:10] == [*["equality"] * 7, *["graphs"] * 2, "resume"]


@pytest.mark.needs("fairseq")
@pytest.mark.nightly
def test_whole_epochs_of_updates_with_as_many_batches_as_a_runs_are_timed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gpu_measure, "SPAN", 3)
    monkeypatch.setattr(gpu_measure, "SECONDS", 0.0)
    sizes = [f"model.{name}" for name in ("layers=1", "dim=8", "ffn_dim=8", "heads=1")]
    facts = speed("en-de", *sizes, "data.batch_tokens=180")
    assert 7 < facts["batches"] <= 8, "the last update of an epoch may have fewer"
    assert facts["evaluation_seconds"] > 0
    assert facts["hours"] == pytest.approx(100_000 * facts["milliseconds"] / 3.6e6)


FAULTS: dict[str, dict[str, Any]] = {
    "the released numerics": {"numerics": "released"},
    "another k": {"k": 0.12},
    "no gradient through the variance": {"detach_variance": True},
    "no gradient through the mean": {"detach_mean": True},
    "another eps": {"eps": 1e-3},
}


@pytest.mark.parametrize("case", ["images", "sentences", "translation", "bytes", "parsing"])
def test_the_check_of_equality_notices_a_norm_that_is_wrong_in_one_term(case: str) -> None:
    experiment = experiment_of(case, "cpu")
    task = tasks.build(experiment)

    def losses_with(fault: dict[str, Any]) -> list[float]:
        prepared = prepare(experiment, task)
        for module in prepared.model.modules():
            if isinstance(module, ClosedFormNorm):
                module.computed = module.computed._replace(**fault)
        return losses(start_trainer(experiment, prepared), 4)

    right = losses_with({})
    assert largest_difference(losses_with({}), right) == 0
    for name, fault in FAULTS.items():
        assert largest_difference(losses_with(fault), right) > 2 * SAME, name


@pytest.mark.usefixtures("_quick_start")
def test_a_run_that_loses_a_process_ends_with_its_line() -> None:
    facts = lost("cpu")
    assert (facts["ok"], facts["code"], facts["said"]) == (True, 2, True)


def test_the_verdict_says_hours_and_what_limits_them() -> None:
    whole = {**SPEED, "name": "speed: en-de fp32", "verdict": "ok", "device_milliseconds": 97.0}
    waiting = {**whole, "name": "speed: rt fp32", "device_milliseconds": 20.0, "waits": 9}
    several = {**SPEED, "name": "speed: en-de bf16 on 8", "verdict": "ok"}
    failed = {"name": "resume", "verdict": "FAIL"}
    equal = {"name": "equality: images", "verdict": "ok", "norms": "eager: triton is not installed"}
    batch = {
        **equal,
        "name": "equality: a norm over the batch",
        "norms": "eager: BatchNorm has no kernels",
    }
    assert in_words([equal, batch, whole, waiting, several, failed]) == [
        "AdaNorm: eager: triton is not installed",
        "en-de fp32: 9 hours, 31.0 GB; the GPU limits it (kernels 97%, 1 waits)",
        "rt fp32: 9 hours, 31.0 GB; the host limits it (kernels 20%, 9 waits)",
        "en-de bf16 on 8: 9 hours, 31.0 GB",
        "FAIL: resume",
        "Do not start long runs before this is understood.",
    ]


def test_an_unknown_check_names_the_choices() -> None:
    with pytest.raises(ValueError, match="checks=kernels: no check begins so; choose from resume"):
        main(["checks=kernels"])
