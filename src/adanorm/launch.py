"""Handing runs to Hydra's launchers, local processes, Ray or SLURM, and telling how they end."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from adanorm.compose import one_line
from adanorm.config import CONF, choices
from adanorm.files import write_whole
from adanorm.records import reader
from adanorm.records.folder import is_held, shown
from adanorm.studies import Planned

PLUGINS = {
    "ray": "hydra_plugins.hydra_ray_launcher",
    "slurm": "hydra_plugins.hydra_submitit_launcher",
    "submitit-local": "hydra_plugins.hydra_submitit_launcher",
}
SECONDS = 0.2  # between two looks at the jobs


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


def choose(launcher: str, *, workers: int | None, gpus: int, settings: Sequence[str], on_cpu: bool) -> Launch:
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


def make_all(runs: Sequence[Planned], launch: Launch, folder: Path) -> list[Planned]:
    """Make runs, print a line as each ends, and return those that failed; one failing stops no other.

    What a run came to is read from its record. A run that another process holds is waited for, and
    made here if that process left it unfinished. The jobs' logs go into `folder`.
    """
    local = launch.launcher in ("local", "submitit-local")
    plan = {
        "cwd": os.getcwd(),
        "devices": launch.devices if local else [],
        "aloud": launch.launcher == "local" and launch.workers == 1,
        "runs": [run.arguments for run in runs],
    }
    folder.mkdir(parents=True)
    write_whole(folder / "plan.json", json.dumps(plan, indent=1).encode())
    left = list(range(len(runs)))
    while left:
        _launch(runs, left, launch, folder)
        left = [index for index in left if _state(runs[index]) == "held"]
        if left:
            print(f"{len(left)} run(s) held by another process: waiting for them", flush=True)
        while any(_state(runs[index]) == "held" for index in left):
            time.sleep(5)
        left = [index for index in left if _state(runs[index]) != "made"]
    return [run for run in runs if _state(run) != "made"]


def _state(run: Planned) -> str:
    folder = run.experiment.folder()
    held = is_held(folder)  # asked first: a run may end in between
    return "made" if reader.is_made(folder) else "held" if held else "failed"


def _launch(runs: Sequence[Planned], chosen: Sequence[int], launch: Launch, folder: Path) -> None:
    """Hand some of the runs to the launcher and wait until it has done with them."""
    waited = set(chosen)
    for index in chosen:
        (folder / f"{index}.ended").unlink(missing_ok=True)
    indices = ",".join(map(str, chosen))
    plan = f"plan={json.dumps(str(folder.resolve()))}"
    command = [sys.executable, "-m", "adanorm.job", "-m", f"index={indices}", plan, *launch.overrides()]
    aloud = launch.launcher == "local" and launch.workers == 1
    with (folder / "launcher.log").open("a") as log:
        output = None if aloud else log
        with subprocess.Popen(command, stdout=output, stderr=output) as process:
            while waited:
                working = process.poll() is None  # asked before the jobs, the last of which may just end
                for index in sorted(waited):
                    if (folder / f"{index}.ended").exists():
                        waited.remove(index)
                        _report(runs, index, folder)
                if not working:
                    break
                time.sleep(SECONDS)
    for index in sorted(waited):
        _report(runs, index, folder)
    if process.returncode:
        last = (folder / "launcher.log").read_text().strip().splitlines()[-1:]
        print(f"launcher {launch.launcher}: ended with {process.returncode} {' '.join(last)}", flush=True)
        print(f"its log: {shown(folder)}", flush=True)


def _report(runs: Sequence[Planned], index: int, folder: Path) -> None:
    ended, log = folder / f"{index}.ended", folder / f"{index}.log"
    code = ended.read_text() if ended.exists() else "no exit code"
    state = _state(runs[index])
    text = {"made": "ended", "held": "held by another process"}.get(state, f"FAILED with {code}")
    tail = log.read_text().strip().splitlines() if log.exists() else []
    said = [line for line in tail if ": test " in line][-1:] or tail[-3:]
    lines = [f"[{index + 1}/{len(runs)}] {runs[index].name}: {text}"]
    for line in said if state != "held" else []:
        lines += textwrap.wrap(line, 80, initial_indent="  ", subsequent_indent="    ")
    print("\n".join(lines), flush=True)
