"""Choosing one of Hydra's launchers (local processes, Ray or SLURM), and handing runs to it."""

import importlib.util
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from types import FrameType
from typing import IO, NoReturn

from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException
from pydantic import Field

from adanorm.config.errors import check_known, one_line
from adanorm.config.overrides import quoted
from adanorm.config.paths import CONF, PROJECT, choices, install_command
from adanorm.config.sections import Config
from adanorm.config.titles import counted
from adanorm.config.yaml_file import read_yaml_file
from adanorm.files import write_whole
from adanorm.process import end_with_parent
from adanorm.records import reader
from adanorm.records.folder import HELD_CODE, is_locked, shown
from adanorm.records.result import outcome
from adanorm.runs.devices import check_devices, usable_devices
from adanorm.studies.study import Planned

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
    read_yaml_file(CONF / "job.yaml")  # Hydra, which reads it below, takes many lines to tell of a mistake
    try:
        with initialize_config_dir(str(CONF), version_base="1.3"):
            compose("job", [*launch.overrides(), "plan=nowhere", "index=0"], return_hydra_config=True)
    except (HydraException, OmegaConfBaseException) as error:
        problem = one_line(error).replace("hydra.launcher.", "launcher.")
        problem = problem.partition(": ")[0] if problem.startswith("unknown key") else problem
        raise ValueError(f"{problem}: conf/launcher/{launcher}.yaml has the settings") from None
    return launch


SECONDS = 0.2  # between two looks at the jobs
PATIENCE = 5.0  # seconds that a process has to end before it is killed


def run_all(runs: Sequence[Planned], launch: Launch, name: str, kept: str | None) -> list[Planned]:
    """Return the runs that failed, after making all of them and printing a line as each ends.

    A run that fails stops no other. What a run came to is read from its record. A run that another process
    holds is waited for, and made here if that process left it unfinished. The jobs' logs go into a new
    folder, whose name begins with `name`, in studies/ of the records' folder `kept`.
    """
    arguments = [[*run.arguments, *_of_logger(run, name)] for run in runs]
    plan = {"cwd": os.getcwd(), "aloud": launch.aloud, "runs": arguments}
    plan |= {"devices": launch.devices if launch.facts.local else [], "runs_a_device": launch.runs_a_device}
    studies = (Path(kept) if kept else PROJECT / "outputs") / "studies"
    studies.mkdir(parents=True, exist_ok=True)
    folder = Path(mkdtemp(prefix=f"{name}-{time.strftime('%Y-%m-%d_%H-%M-%S')}-", dir=studies))
    write_whole(folder / "plan.json", json.dumps(plan, indent=1).encode())
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    left = list(range(len(runs)))
    while left:
        _launch(runs, left, launch, folder)
        left = [index for index in left if _state(runs[index], _code(folder, index)) == "held"]
        if left:
            print(f"{counted(len(left), 'run')} held by another process: waiting", flush=True)
        while any(is_locked(runs[index].experiment.folder()) for index in left):
            time.sleep(1)
        left = [index for index in left if not reader.is_complete(runs[index].experiment.folder())]
    return [run for run in runs if not reader.is_complete(run.experiment.folder())]


def _of_logger(run: Planned, study: str) -> list[str]:
    """Return what makes a study's runs one group of a logger."""
    is_used = run.experiment.logger.name != "files"
    group = [f"++logger.group={quoted(study)}", f"++logger.label={quoted(run.name)}"]
    return group if is_used else []


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    for ignored in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)  # the jobs are being ended
    with suppress(OSError):  # a terminal that was closed
        print("stopped: the next start resumes the runs from their checkpoints", file=sys.stderr)
    raise SystemExit(128 + number)


def _state(run: Planned, code: str) -> str:
    """Return made, held or failed; held too where another process had the run when its job came to it."""
    folder = run.experiment.folder()
    is_held = is_locked(folder)  # asked first: a run may end in between
    if reader.is_complete(folder):
        return "made"
    return "held" if is_held or code == str(HELD_CODE) else "failed"


def _code(folder: Path, index: int) -> str:
    path = folder / f"{index}.ended"
    return path.read_text("utf-8") if path.exists() else "no exit code"


def _launch(runs: Sequence[Planned], chosen: Sequence[int], launch: Launch, folder: Path) -> None:
    """Hand some of the runs to the launcher and wait until it has done with them."""
    for index in chosen:
        (folder / f"{index}.ended").unlink(missing_ok=True)
    command = [sys.executable, "-m", "adanorm.launch.job", "-m", f"index={','.join(map(str, chosen))}"]
    command += [f"plan={quoted(str(folder.resolve()))}", *launch.overrides()]
    waited = list(chosen)
    path = folder / "launcher.log"
    with path.open("a", encoding="utf-8") as log, _group(command, None if launch.aloud else log) as process:
        while waited:
            is_over = process.poll() is not None  # asked before the jobs: the last may just end
            for index in [i for i in waited if is_over or (folder / f"{i}.ended").exists()]:
                waited.remove(index)
                _report(runs, index, folder)
            if waited:
                time.sleep(SECONDS)
        code = process.wait()
    if code:
        last = path.read_text("utf-8", "replace").strip().splitlines()[-1:]
        print(f"launcher {launch.launcher}: ended with {code} {' '.join(last)}", flush=True)
        print(f"its log: {shown(folder)}", flush=True)


@contextmanager
def _group(command: Sequence[str], output: IO[str] | None) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process in a group of its own, and end whatever is left of the group after a block.

    However this process ends, Linux then sends SIGTERM to that process, which ends its group.
    """
    ending = end_with_parent(signal.SIGTERM)
    process = subprocess.Popen(
        command,
        stdout=output,
        stderr=output,
        start_new_session=True,
        preexec_fn=ending,  # noqa: PLW1509
    )
    try:
        yield process
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            deadline = time.monotonic() + PATIENCE
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
                while time.monotonic() < deadline:
                    process.poll()  # a zombie counts as one of the group
                    os.killpg(process.pid, 0)
                    time.sleep(0.05)
        process.wait()


def _report(runs: Sequence[Planned], index: int, folder: Path) -> None:
    run, code, log = runs[index], _code(folder, index), folder / f"{index}.log"
    state, result = _state(run, code), reader.result(run.experiment.folder())
    text = {"made": "ended", "held": "held by another process"}.get(state, f"FAILED with {code}")
    print(f"[{index + 1}/{len(runs)}] {run.name}: {text}", flush=True)
    details: list[str] = []
    if result is not None and (state == "made" or code == "1"):  # 1: it broke in training, which is recorded
        details = [outcome(run.experiment.task, result)]
    elif state == "failed" and log.exists():
        details = log.read_text("utf-8", "replace").strip().splitlines()[-3:]
    for line in filter(str.strip, details):
        print(textwrap.fill(line, 80, initial_indent="  ", subsequent_indent="    "), flush=True)
