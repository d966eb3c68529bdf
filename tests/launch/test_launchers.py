"""Launchers: what the suite knows of each stands in its file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from adanorm.config.paths import CONF, choices
from adanorm.launch.launchers import Launch, LauncherFacts, choose_launch, load_facts


def launch(name: str, facts: LauncherFacts, *settings: str, devices: tuple[str, ...] = ()) -> Launch:
    return Launch(name, facts, workers=3, gpus=2, devices=devices, settings=settings)


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


def test_which_launchers_share_out_this_machines_devices_is_in_their_files() -> None:
    assert [name for name in choices("launcher") if load_facts(name).local] == ["local", "submitit-local"]
    assert [name for name in choices("launcher") if load_facts(name).aloud] == ["local"]


def test_ray_gets_the_gpus_that_there_are_and_room_for_its_workers_unless_it_runs_already() -> None:
    facts = load_facts("ray")
    own = launch("ray", facts, devices=("0", "1")).overrides()
    assert own[3:] == ["hydra.launcher.ray.remote.num_gpus=2", "+hydra.launcher.ray.init.num_cpus=3"]
    given = launch("ray", facts, "launcher.ray.init.address=auto").overrides()
    assert given[3:] == ["hydra.launcher.ray.remote.num_gpus=0", "hydra.launcher.ray.init.address=auto"]


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of configurations whose launchers are a test's own."""
    (tmp_path / "launcher").mkdir()
    monkeypatch.setattr("adanorm.config.paths.CONF", tmp_path)
    monkeypatch.setattr("adanorm.launch.launchers.CONF", tmp_path)
    return tmp_path / "launcher"


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ("plugin: hydra_plugins.nowhere", "launcher mine: not installed"),
        ("requires: no-such-program", "launcher mine: there is no no-such-program here"),
        ("remote: true", r"conf/launcher/mine.yaml: launcher.remote=True: extra inputs"),
    ],
)
def test_what_a_launcher_lacks_is_said_by_name(conf: Path, facts: str, message: str) -> None:
    (conf / "mine.yaml").write_text(f"launcher: {{{facts}}}\n")
    with pytest.raises(ValueError, match=message):
        choose_launch("mine", workers=1, gpus=1, settings=[], on_cpu=True)


def test_more_workers_than_devices_share_them() -> None:
    facts = load_facts("local")
    one = Launch("local", facts, workers=3, gpus=1, devices=("0",), settings=())
    assert one.runs_a_device == 3
    assert Launch("local", facts, workers=2, gpus=1, devices=("0", "1"), settings=()).runs_a_device == 1
    assert Launch("local", facts, workers=2, gpus=1, devices=(), settings=()).runs_a_device >= 1
