"""Choosing a launcher of Hydra's, and what it is told."""

import importlib.util
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException
from pydantic import Field

from adanorm.config.errors import check_known, one_line
from adanorm.config.paths import CONF, choices, install_command
from adanorm.config.sections import Config
from adanorm.config.yaml_file import read_yaml_file
from adanorm.runs.devices import check_devices, usable_devices

CORES_A_GPU = 4  # a process's main thread, the one that collates ahead, and NCCL's
MEMORY_GB_A_GPU = 12


class LauncherFacts(Config):
    """What the suite must know of a launcher: the key `launcher` of its file."""

    local: bool = False  # its jobs are of this machine, whose GPUs they share out
    gpus: str | None = None  # the setting by which its jobs ask for GPUs, which need not be of this machine
    workers: str | None = None  # the setting that is `workers=`
    aloud: bool = False  # with one worker a run speaks on this terminal
    plugin: str | None = None  # a package of the extra `cluster`
    requires: str | None = None  # a program
    # In Hydra's syntax, and the setting that takes its place where the user names it. {workers}; of a run
    # {cores}, {memory_gb}, and {gpus}, 0 where this machine has none.
    overrides: dict[str, str | None] = Field(default={})


@dataclass(frozen=True)
class Launch:
    """Where runs are made, how many at a time, and with how many GPUs each."""

    launcher: str
    facts: LauncherFacts
    workers: int
    gpus: int
    devices: Sequence[str]  # of this machine, for its own jobs to share out
    settings: Mapping[str, str]  # of the launcher, that the user named

    @property
    def aloud(self) -> bool:
        """Whether runs speak for themselves: several at once would be unreadable."""
        return self.facts.aloud and self.workers == 1

    @property
    def on_gpus(self) -> bool:
        """Whether runs are computed on GPUs: of this machine, or those that a cluster's jobs ask for."""
        asked = self.settings.get(self.facts.gpus, "1") if self.facts.gpus else "0"
        return bool(self.devices) or asked not in ("0", "null")

    @property
    def runs_a_device(self) -> int:
        """How many runs share a device of this machine: as many as `workers` asks for."""
        return max(1, math.ceil(self.workers * self.gpus / max(1, len(self.devices))))

    def overrides(self) -> list[str]:
        """Return the command line of the jobs but for their plan."""
        chosen = [f"launcher={self.launcher}", f"workers={self.workers}", f"gpus={self.gpus}"]
        on_gpus = self.gpus if self.on_gpus else 0  # per run
        numbers = {"workers": self.workers, "gpus": self.gpus if self.devices else 0}
        numbers |= {"cores": max(CORES_A_GPU * on_gpus, 2), "memory_gb": max(MEMORY_GB_A_GPU * on_gpus, 16)}
        unnamed = [x for x, other in self.facts.overrides.items() if other not in self.settings]
        named = [f"hydra.launcher.{key}={value}" for key, value in self.settings.items()]
        return [*chosen, *(override.format(**numbers) for override in unnamed), *named]


def load_facts(launcher: str) -> LauncherFacts:
    """Return the facts of conf/launcher/<launcher>.yaml; raises ValueError for what there cannot be."""
    check_known("launcher", [launcher], choices("launcher"))
    written = read_yaml_file(CONF / "launcher" / f"{launcher}.yaml")
    return LauncherFacts.checked(written.get("launcher", {}), f"conf/launcher/{launcher}.yaml: launcher.")


def choose_launch(
    launcher: str, *, workers: int | None, gpus: int, settings: Sequence[str], on_cpu: bool, threads: int = 1
) -> Launch:
    """Return where runs are made, with as many workers as this machine suits where none are named.

    A worker then has cores for its `threads`: two runs of one thread beat one of two.
    Raises ValueError where the launcher is not installed or does not have such a setting.
    """
    facts = load_facts(launcher)
    if facts.plugin is not None and importlib.util.find_spec(facts.plugin) is None:
        raise ValueError(f"launcher {launcher}: not installed: {install_command('cluster')}")
    if facts.requires is not None and shutil.which(facts.requires) is None:
        raise ValueError(f"launcher {launcher}: no {facts.requires} here; submit from a machine that has it")
    devices = [] if on_cpu else [str(index) for index in range(usable_devices())]
    if named := os.environ.get("CUDA_VISIBLE_DEVICES"):
        devices = named.split(",")[: len(devices)]
    if facts.local and not on_cpu:
        check_devices(gpus)
    room = len(devices) or len(os.sched_getaffinity(0)) // threads
    given = dict(setting.removeprefix("launcher.").split("=", 1) for setting in settings)
    if facts.workers in given:
        raise ValueError(f"launcher.{facts.workers}={given[facts.workers]}: write workers=N")
    launch = Launch(launcher, facts, workers or max(1, room // gpus), gpus, devices, given)
    try:
        with initialize_config_dir(str(CONF), version_base="1.3"):
            compose("job", [*launch.overrides(), "plan=nowhere", "index=0"], return_hydra_config=True)
    except (HydraException, OmegaConfBaseException) as error:
        problem = one_line(error).replace("hydra.launcher.", "launcher.")
        problem = problem.partition(": ")[0] if problem.startswith("unknown key") else problem
        raise ValueError(f"{problem}: conf/launcher/{launcher}.yaml has the settings") from None
    return launch
