import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from signal import SIGINT
from typing import Any

import pytest
import torch
from filelock import FileLock
from hydra import compose, initialize_config_dir

from adanorm.config.compose import compose_experiment
from adanorm.config.paths import CONF, PROJECT, choices
from adanorm.records import reader
from adanorm.records.folder import RunFolder
from adanorm.studies.job import reserved_devices
from adanorm.studies.launch import Launch, LauncherFacts, choose_launch, load_facts
from adanorm.training import state as checkpoint
from tests import commands
from tests.conftest import Command
from tests.reporting.records import record
from tests.verdicts import not_none

pytestmark = pytest.mark.usefixtures("_quick_start")

MNIST = ["task=mnist", "norm=layernorm", "scale=smoke"]
ROWS = "title: t\nrows: {ROWS}\ncolumns: [mnist]\nscale: smoke\nseeds: [1]\n"
BROKEN = (
    "broken: {norm: 'tests.broken_norm:RaisesInTraining'}, layernorm: {norm: layernorm},"
    " three: {norm: groupnorm, overrides: [norm.params.groups=3]}"
)


def own_study(tmp_path: Path, rows: str) -> list[str]:
    (tmp_path / "own.yaml").write_text(ROWS.replace("ROWS", rows))
    return [str(tmp_path / "own.yaml"), f"runs={tmp_path / 'runs'}"]


def started(*arguments: str, **settings: Any) -> subprocess.Popen[str]:
    """Start a study in an interpreter of its own and return its process."""
    command = [sys.executable, "-m", "adanorm", "study", *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command,
        cwd=PROJECT,
        stdout=pipe,
        stderr=pipe,
        text=True,
        **settings,
    )


def wait_until(condition: Callable[[], bool], seconds: float = 200) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(
    "launcher",
    [
        "local",
        pytest.param("ray", marks=[pytest.mark.needs("ray"), pytest.mark.nightly]),
        pytest.param("submitit-local", marks=[pytest.mark.needs("submitit"), pytest.mark.nightly]),
    ],
)
def test_failed_runs_stop_no_other_and_the_next_start_runs_them_alone(
    tmp_path: Path, command: Command, launcher: str
) -> None:
    arguments = [*own_study(tmp_path, BROKEN), f"launcher={launcher}", "workers=2"]
    done = command("study", *arguments)
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stderr == "failed: mnist broken seed 1\nfailed: mnist three seed 1\n"
    paths = sorted(tmp_path.glob("runs/mnist/*/*/record.jsonl"))
    results = [not_none(reader.record(path.parent).values) for path in paths]
    outcomes = [(result["norm"], result["status"], result.get("error")) for result in results]
    error = "RuntimeError: breaks in training"
    assert outcomes == [("RaisesInTraining", "failed", error), ("layernorm", "done", None)]
    score = results[1]["test"]["accuracy"]
    for line in (
        f"[1/3] mnist broken seed 1: FAILED with 1\n  failed: {error}\n",
        f"[2/3] mnist layernorm seed 1: ended\n  test accuracy {score:.2f}, validation ",
        "[3/3] mnist three seed 1: FAILED with 2\n  error: groups=3: must be",  # the end of its log
    ):
        assert line in done.stdout
    assert max(map(len, done.stdout.splitlines()[:-1])) <= 80  # the last line is a path
    if launcher == "local":  # what is missing is no launcher's business
        again = command("study", *arguments)
        assert again.returncode == 1
        assert "3 runs, 1 completed before, 2 to run\n2 workers of 1 thread each" in again.stdout


def test_a_study_waits_for_a_run_that_another_process_holds(tmp_path: Path) -> None:
    arguments = own_study(tmp_path, "layernorm: {norm: layernorm}")
    folder = compose_experiment([*MNIST, f"runs={tmp_path / 'runs'}"]).folder()
    folder.mkdir(parents=True)
    with FileLock(folder / "run.lock"):
        process = started(*arguments, "workers=1")
        assert process.stdout is not None
        _, _, *lines = [process.stdout.readline() for _ in range(4)]
        assert lines[0] == "[1/1] mnist layernorm seed 1: held by another process\n"
        assert lines[1] == "1 run held by another process: waiting\n"
        assert not (folder / "metrics.jsonl").exists()
    rest, errors = process.communicate(timeout=120)
    assert "[1/1] mnist layernorm seed 1: ended\n" in rest  # that process left it unfinished
    assert (process.returncode, errors) == (0, "")


@pytest.mark.needs("submitit")
def test_a_preempted_job_is_requeued_and_resumes_from_its_checkpoint(tmp_path: Path) -> None:
    long = "long: {norm: layernorm, overrides: [training.max_epochs=30]}"
    process = started(
        *own_study(tmp_path, long), "launcher=submitit-local", "checkpoint_minutes=1e-9"
    )
    folder = compose_experiment(
        [*MNIST, "training.max_epochs=30", f"runs={tmp_path / 'runs'}"]
    ).folder()
    rows = folder / "metrics.jsonl"
    wait_until(lambda: rows.exists() and rows.read_text().count("\n") >= 3)
    before = rows.read_text().splitlines()[:2]  # the third may come before its checkpoint
    (job,) = processes("submitit.core._submit", str(tmp_path))
    subprocess.run(["kill", f"-{signal.SIGUSR2.value}", job], check=True)
    output, _ = process.communicate(timeout=200)
    assert process.returncode == 0, output
    assert reader.is_complete(folder)
    curve = reader.record(folder).text("metrics.jsonl").splitlines()
    assert curve[:2] == before, "started anew"
    (log,) = tmp_path.glob("runs/studies/*/.submitit/*/*_log.err")
    assert "this job is preempted" in log.read_text()


@pytest.mark.parametrize(
    ("number", "launcher"),
    [
        (SIGINT, "local"),
        pytest.param(signal.SIGHUP, "local", marks=pytest.mark.nightly),
        (signal.SIGKILL, "local"),
        pytest.param(signal.SIGTERM, "submitit-local", marks=pytest.mark.needs("submitit")),
    ],
)
def test_a_stopped_study_leaves_checkpoints_and_no_process(
    tmp_path: Path, number: signal.Signals, launcher: str
) -> None:
    runs = tmp_path / "its ü, runs"
    long = "{norm: NORM, overrides: [training.max_epochs=400]}"
    study, _ = own_study(
        tmp_path, f"a: {long.replace('NORM', 'layernorm')}, b: {long.replace('NORM', 'none')}"
    )
    settings = (f"runs={runs}", "workers=2", f"launcher={launcher}", "checkpoint_minutes=1e-9")
    # Background jobs of a shell, perhaps these tests too, ignore SIGINT.
    process = started(
        study, *settings, preexec_fn=partial(signal.signal, SIGINT, signal.default_int_handler)
    )
    wait_until(lambda: len(list(runs.glob("mnist/*/*/checkpoint.pt"))) == 2)
    assert len(processes(str(runs))) >= 3, "the study and its runs"
    process.send_signal(number)
    _, errors = process.communicate(timeout=200)
    wait_until(lambda: processes(str(runs)) == [])
    assert process.returncode != 0
    assert errors.count("\n") == (number != signal.SIGKILL), errors
    for path in runs.glob("mnist/*/*/checkpoint.pt"):
        assert checkpoint.load(path, torch.device("cpu")) is not None
        assert not path.with_name("record.jsonl").exists()


def processes(*parts: str) -> list[str]:
    """Return the ids of the processes whose command lines hold all of these."""
    ids = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            line = path.read_text()
            ids += [path.parent.name] * all(part in line for part in parts)
    return ids


def test_no_two_jobs_have_a_device_at_once(tmp_path: Path) -> None:
    devices = [f"{tmp_path.name}-{index}" for index in range(3)]  # nobody else's locks

    def wait_for_two() -> list[str]:
        with reserved_devices(devices, 2) as reserved:
            return list(reserved)

    with ThreadPoolExecutor() as pool, reserved_devices(devices, 1) as first:
        with reserved_devices(devices, 1) as second:
            assert [*first, *second] == devices[:2]
            third = pool.submit(wait_for_two)
            time.sleep(0.3)
            assert not third.done()
        assert third.result(timeout=10) == devices[1:]
    with reserved_devices([], 1) as none:
        assert none == []

    with ExitStack() as jobs:
        reserved = [jobs.enter_context(reserved_devices(devices[:2], 1, 2)) for _ in range(4)]
        assert reserved == [[device] for device in (*devices[:2], *devices[:2])], (
            "two jobs a device, spread"
        )


def test_the_status_counts_every_cell(tmp_path: Path, command: Command) -> None:
    statuses = {
        "none": "diverged",
        "layernorm": "done",
        "detachnorm": "failed",
        "adanorm": "running",
    }
    arguments = own_study(tmp_path, ", ".join(f"{norm}: {{norm: {norm}}}" for norm in statuses))
    line = ["task=mnist", "scale=smoke", arguments[1]]
    for norm, status in statuses.items():
        run = compose_experiment([*line, f"norm={norm}"])
        if status != "running":
            record(run, status=status, seconds=100)
    folder = run.folder()
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text('{"seconds": 40}\n')
    killed = RunFolder(compose_experiment([*line, f"norm={norm}", "seed=2"]).folder())
    with killed.locked():
        host = killed.host.read_bytes()
    for path, content in ((killed.host, host), (killed.checkpoint, b"")):
        path.write_bytes(content)  # which a process that is killed leaves
    with FileLock(folder / "run.lock"):
        done = command("status", *arguments, "seeds=1,2", "workers=2")
    assert done.returncode == 0, done.stderr
    # Left are five runs of 100 seconds, and 60 seconds of the running one.
    assert [" ".join(line.split()) for line in done.stdout.splitlines()] == [
        "own, smoke: 8 runs, 1 done, 1 running, 1 diverged, 1 failed, 4 missing",
        "MNIST done running diverged failed missing",
        "w/o Norm - - 1 - 1",
        "LayerNorm 1 - - - 1",
        "DetachNorm - - - 1 1",
        "AdaNorm - 1 - - 1",
        "time left: about 5 min with 2 workers",
    ]
    assert max(map(len, done.stdout.splitlines())) <= 80
    killed.host.write_text("another machine")
    # Another machine's lock is not seen, its checkpoint is.
    assert ", 1 running," in command("status", *arguments, "seeds=1,2").stdout
    killed.host.unlink()  # it was stopped, not killed
    assert " running," not in command("status", *arguments, "seeds=1,2").stdout


@pytest.mark.parametrize(
    "logger", ["tensorboard", pytest.param("wandb", marks=pytest.mark.nightly)]
)
def test_a_study_is_one_folder_or_one_group_of_a_tracker(
    tmp_path: Path, command: Command, logger: str
) -> None:
    # A label is a text, not Hydra's grammar and no folder.
    rows = "'../k=0,2 \"größer\"': {norm: adanorm, overrides: [norm.params.k=0.2]}"
    if logger == "tensorboard":
        rows += ", plain: {norm: layernorm}"
    arguments = own_study(tmp_path, rows)
    done = command("study", *arguments, f"logger={logger}")
    assert done.returncode == 0, done.stdout
    if logger == "tensorboard":
        folders = sorted(path.parent for path in tmp_path.glob("runs/tensorboard/own/*/events.*"))
        names = [path.name.rpartition(" ")[0] for path in folders]
        assert names == ['mnist ..-k=0,2 "größer" seed 1', "mnist plain seed 1"]
    else:
        logged = [
            path.read_bytes()
            for path in tmp_path.glob("runs/mnist/*/*/wandb/offline-run-*/*.wandb")
        ]
        (content,) = logged
        assert b"2\x03own" in content, "field 6 of wandb's RunRecord, a text of 3 bytes: its group"
        assert 'mnist ../k=0,2 "größer" seed 1'.encode() in content


def launch(
    name: str, facts: LauncherFacts, *settings: str, devices: tuple[str, ...] = ()
) -> Launch:
    named = dict(setting.split("=") for setting in settings)
    return Launch(
        name,
        facts,
        workers=3,
        gpus=2,
        devices=devices,
        settings=named,
    )


@pytest.mark.parametrize("name", choices("launcher"))
def test_a_job_composes_under_every_launcher_with_its_own_overrides(name: str) -> None:
    facts = load_facts(name)
    if facts.plugin is not None:
        pytest.importorskip(facts.plugin)
    overrides = [*launch(name, facts).overrides(), "plan=nowhere", "index=0"]
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config = compose("job", overrides, return_hydra_config=True)
    assert (config.workers, config.gpus) == (3, 2)
    assert config.hydra.runtime.choices.launcher == name


def test_ray_runs_ask_for_gpus_if_there_are_any_and_a_new_cluster_has_a_core_per_worker() -> None:
    facts = load_facts("ray")
    overrides = launch("ray", facts, devices=("0", "1")).overrides()
    assert overrides[3:] == [
        "hydra.launcher.ray.remote.num_gpus=2",
        "+hydra.launcher.ray.init.num_cpus=3",
    ]
    running = launch("ray", facts, "ray.init.address=auto").overrides()
    assert running[3:] == [
        "hydra.launcher.ray.remote.num_gpus=0",
        "hydra.launcher.ray.init.address=auto",
    ]


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ("plugin: hydra_plugins.nowhere", "launcher mine: not installed"),
        ("requires: no-such-program", "launcher mine: no no-such-program here"),
        ("remote: true", r"conf/launcher/mine.yaml: launcher.remote=True: extra inputs"),
    ],
)
def test_a_launcher_names_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, facts: str, message: str
) -> None:
    (tmp_path / "launcher").mkdir()
    (tmp_path / "launcher" / "mine.yaml").write_text(f"launcher: {{{facts}}}\n")
    for module in ("config.paths", "studies.launch"):
        monkeypatch.setattr(f"adanorm.{module}.CONF", tmp_path)
    with pytest.raises(ValueError, match=message):
        choose_launch(
            "mine",
            workers=1,
            gpus=1,
            settings=[],
            on_cpu=True,
        )


def test_a_mistake_in_what_all_launchers_share_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "launcher").symlink_to(CONF / "launcher")
    (tmp_path / "job.yaml").write_text("plan: a\nplan: b\n")
    monkeypatch.setattr("adanorm.studies.launch.CONF", tmp_path)
    with pytest.raises(ValueError, match=r"job\.yaml: 'plan' is given twice, again in line 2$"):
        choose_launch(
            "local",
            workers=1,
            gpus=1,
            settings=[],
            on_cpu=True,
        )


def test_more_workers_than_devices_share_them() -> None:
    facts = load_facts("local")
    for workers, devices, shared in ((3, ("0",), 3), (2, ("0", "1"), 1), (1, (), 1)):
        assert (
            Launch(
                "local",
                facts,
                workers,
                1,
                devices,
                settings={},
            ).runs_per_device
            == shared
        )


def test_workers_have_cores_for_their_threads_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(8)))
    workers = [
        choose_launch(
            "local", workers=named, gpus=1, settings=[], on_cpu=True, threads=threads
        ).workers
        for named, threads in ((None, 1), (None, 2), (5, 2), (None, 16))
    ]
    assert workers == [8, 4, 5, 1]


SBATCH = '#!/usr/bin/env bash\ncat "${!#}" >>"$(dirname "$0")/submitted"\nexit 1\n'


@pytest.mark.parametrize(
    ("settings", "options", "device"),
    [
        (("gpus=8",), {"--gpus-per-node=8", "--cpus-per-task=32", "--mem=96GB"}, "GPUs"),
        (("gpus=2", "launcher.mem_gb=64"), {"--cpus-per-task=8", "--mem=64GB"}, "GPUs"),
        (("launcher.gpus_per_node=null",), {"--cpus-per-task=2", "--mem=16GB"}, "CPU"),
    ],
)
def test_a_slurm_job_asks_for_cores_and_memory_by_gpu(
    tmp_path: Path, settings: tuple[str, ...], options: set[str], device: str
) -> None:
    pytest.importorskip("submitit")
    for program in ("sbatch", "srun"):  # submitit looks for both
        (tmp_path / program).write_text(SBATCH)
        (tmp_path / program).chmod(0o755)
    arguments = ("study", *own_study(tmp_path, "a: {norm: layernorm}"), "launcher=slurm", *settings)
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = commands.run("adanorm", *arguments, environment={**os.environ, "PATH": path})
    submitted = (tmp_path / "submitted").read_text()
    assert options <= {line.partition(" ")[2] for line in submitted.splitlines()}, submitted
    assert "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK" in submitted
    assert f" on {device}\n" in done.stdout
