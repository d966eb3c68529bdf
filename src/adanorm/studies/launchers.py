"""Choosing a launcher of Hydra's, and what it is told."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass

from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from adanorm.config.errors import one_line
from adanorm.config.paths import CONF, choices

PLUGINS = {
    "ray": "hydra_plugins.hydra_ray_launcher",
    "slurm": "hydra_plugins.hydra_submitit_launcher",
    "submitit-local": "hydra_plugins.hydra_submitit_launcher",
}


@dataclass(frozen=True)
class Launch:
    """Where runs are made, how many at a time, and with how many GPUs each."""

    launcher: str
    workers: int
    gpus: int
    devices: Sequence[str]  # of this machine, for its own jobs to share out
    settings: Sequence[str]  # launcher.KEY=VALUE

    def overrides(self) -> list[str]:
        """Return the command line of the jobs but for their plan."""
        chosen = [f"launcher={self.launcher}", f"workers={self.workers}", f"gpus={self.gpus}"]
        if self.launcher == "ray":
            chosen += [f"hydra.launcher.ray.remote.num_gpus={self.gpus if self.devices else 0}"]
            if not any(setting.startswith("launcher.ray.init.address=") for setting in self.settings):
                chosen += [f"+hydra.launcher.ray.init.num_cpus={self.workers}"]
        return [*chosen, *(f"hydra.{setting}" for setting in self.settings)]


def choose_launch(
    launcher: str, *, workers: int | None, gpus: int, settings: Sequence[str], on_cpu: bool
) -> Launch:
    """Return where runs are made, with as many workers as this machine suits where none are named.

    Raises ValueError where the launcher is not installed or does not have such a setting.
    """
    if launcher not in choices("launcher"):
        raise ValueError(f"unknown launcher {launcher!r}: choose from {', '.join(choices('launcher'))}")
    plugin = PLUGINS.get(launcher)
    if plugin is not None and importlib.util.find_spec(plugin) is None:
        raise ValueError(
            f"launcher {launcher}: not installed (pip install -c constraints.txt -e '.[cluster]')"
        )
    if launcher == "slurm" and shutil.which("sbatch") is None:
        raise ValueError("launcher slurm: there is no sbatch here; submit from a machine of the cluster")
    devices = [] if on_cpu else _devices()
    local = launcher in ("local", "submitit-local")
    if local and devices and gpus > len(devices):
        raise ValueError(f"--gpus {gpus}: this machine has {len(devices)}")
    room = len(devices) or len(os.sched_getaffinity(0))
    launch = Launch(launcher, workers or max(1, room // gpus), gpus, devices, settings)
    try:
        with initialize_config_dir(str(CONF), version_base="1.3"):
            compose("job", [*launch.overrides(), "plan=nowhere", "index=0"], return_hydra_config=True)
    except (HydraException, OmegaConfBaseException) as error:
        said = one_line(error).replace("hydra.launcher.", "launcher.")
        said = said.partition(": ")[0] if said.startswith("unknown key") else said
        raise ValueError(f"{said}: conf/launcher/{launcher}.yaml has the settings") from None
    return launch


def _devices() -> list[str]:
    import torch

    named = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    count = torch.cuda.device_count()
    return named.split(",")[:count] if named else [str(index) for index in range(count)]
