"""Launchers: what the suite knows of each stands in its file."""

import os
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from adanorm.config.paths import CONF, choices
from adanorm.launch.launch import Launch, LauncherFacts, choose_launch, load_facts
from tests import commands
from tests.launch.test_launch import own_study


def launch(name: str, facts: LauncherFacts, *settings: str, devices: tuple[str, ...] = ()) -> Launch:
    named = dict(setting.split("=") for setting in settings)
    return Launch(name, facts, workers=3, gpus=2, devices=devices, settings=named)


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


def test_ray_gets_the_gpus_that_there_are_and_room_for_its_workers_unless_it_runs_already() -> None:
    facts = load_facts("ray")
    own = launch("ray", facts, devices=("0", "1")).overrides()
    assert own[3:] == ["hydra.launcher.ray.remote.num_gpus=2", "+hydra.launcher.ray.init.num_cpus=3"]
    given = launch("ray", facts, "ray.init.address=auto").overrides()
    assert given[3:] == ["hydra.launcher.ray.remote.num_gpus=0", "hydra.launcher.ray.init.address=auto"]


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ("plugin: hydra_plugins.nowhere", "launcher mine: not installed"),
        ("requires: no-such-program", "launcher mine: no no-such-program here"),
        ("remote: true", r"conf/launcher/mine.yaml: launcher.remote=True: extra inputs"),
    ],
)
def test_what_a_launcher_lacks_is_said_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, facts: str, message: str
) -> None:
    (tmp_path / "launcher").mkdir()
    (tmp_path / "launcher" / "mine.yaml").write_text(f"launcher: {{{facts}}}\n")
    for module in ("config.paths", "launch.launch"):
        monkeypatch.setattr(f"adanorm.{module}.CONF", tmp_path)
    with pytest.raises(ValueError, match=message):
        choose_launch("mine", workers=1, gpus=1, settings=[], on_cpu=True)


@pytest.mark.parametrize("setting", ["launcher.n_jobs=0", "launcher.n_jobs=2"])
def test_the_number_of_workers_has_one_name(setting: str) -> None:
    with pytest.raises(ValueError, match=f"{setting}: write workers=N"):
        choose_launch("local", workers=1, gpus=1, settings=[setting], on_cpu=True)


def test_more_workers_than_devices_share_them() -> None:
    facts = load_facts("local")
    for workers, devices, shared in ((3, ("0",), 3), (2, ("0", "1"), 1), (1, (), 1)):
        assert Launch("local", facts, workers, 1, devices, settings={}).runs_a_device == shared


def test_workers_have_cores_for_their_threads_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(8)))
    workers = [
        choose_launch("local", workers=named, gpus=1, settings=[], on_cpu=True, threads=threads).workers
        for named, threads in ((None, 1), (None, 2), (5, 2), (None, 16))
    ]
    assert workers == [8, 4, 5, 1]


SBATCH = '#!/usr/bin/env bash\ncat "${!#}" >>"$(dirname "$0")/submitted"\nexit 1\n'


@pytest.mark.parametrize(
    ("settings", "asked", "device"),
    [
        (("gpus=8",), {"--gpus-per-node=8", "--cpus-per-task=32", "--mem=96GB"}, "GPUs"),
        (("gpus=2", "launcher.mem_gb=64"), {"--cpus-per-task=8", "--mem=64GB"}, "GPUs"),
        (("launcher.gpus_per_node=null",), {"--cpus-per-task=2", "--mem=16GB"}, "CPU"),
    ],
)
def test_a_slurm_job_asks_for_cores_and_memory_by_gpu(
    tmp_path: Path, settings: tuple[str, ...], asked: set[str], device: str
) -> None:
    pytest.importorskip("submitit")
    for program in ("sbatch", "srun"):  # submitit looks for both
        (tmp_path / program).write_text(SBATCH)
        (tmp_path / program).chmod(0o755)
    arguments = ("study", *own_study(tmp_path, "a: {norm: layernorm}"), "launcher=slurm", *settings)
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = commands.run("adanorm", *arguments, environment={**os.environ, "PATH": path})
    submitted = (tmp_path / "submitted").read_text()
    assert asked <= {line.partition(" ")[2] for line in submitted.splitlines()}, submitted
    assert "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK" in submitted
    assert f" on {device}\n" in done.stdout
