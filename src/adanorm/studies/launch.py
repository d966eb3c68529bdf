"""Chooses one of Hydra's launchers (local processes, Ray or SLURM) and hands runs to it."""

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
from adanorm.config.values import read_yaml_file
from adanorm.files import create_folder, write_whole
from adanorm.process import end_with_parent
from adanorm.records import reader
from adanorm.records.environment import check_devices, usable_devices
from adanorm.records.folder import HELD_CODE, is_locked, path_text
from adanorm.records.result import outcome
from adanorm.studies.study import Planned

CORES_PER_GPU = 4  # for a process's main thread, the thread that collates batches, and NCCL's
MEMORY_GB_PER_GPU = 12
SECONDS = 0.2  # between two checks of the jobs
PATIENCE = 5.0  # seconds that a process has to end before it is killed


class LauncherFacts(Config):
    """What the suite must know about a launcher: the key `launcher` of its file."""

    local: bool = False  # its jobs run on this machine and share its GPUs
    gpus: str | None = None  # the setting by which its jobs ask for GPUs, perhaps of other machines
    workers: str | None = None  # the setting that `workers=` stands for
    aloud: bool = False  # with one worker a run prints on this terminal
    plugin: str | None = None  # a package that it needs, of the extra `cluster`
    requires: str | None = None  # a program that it needs
    # Overrides in Hydra's syntax; each is left out if the user names the setting beside it. They
    # may contain {workers}, and per run {cores}, {memory_gb} and {gpus}, which is 0 if this machine
    # has none.
    overrides: dict[str, str | None] = Field(default={})


@dataclass(frozen=True)
class Launch:
    """Where runs are made, how many at a time, and on how many GPUs each."""

    launcher: str
    facts: LauncherFacts
    workers: int
    gpus: int
    devices: Sequence[str]  # of this machine, which its local jobs share
    settings: Mapping[str, str]  # of the launcher, as the user named them

    @property
    def aloud(self) -> bool:
        """Whether a run prints on this terminal: several at once would be unreadable."""
        return self.facts.aloud and self.workers == 1

    @property
    def on_gpus(self) -> bool:
        """Whether runs are computed on GPUs, of this machine or of a cluster."""
        gpus = self.settings.get(self.facts.gpus, "1") if self.facts.gpus else "0"
        return bool(self.devices) or gpus not in ("0", "null")

    @property
    def runs_per_device(self) -> int:
        """How many runs share a device of this machine, so that all workers have one."""
        return max(1, math.ceil(self.workers * self.gpus / max(1, len(self.devices))))

    def overrides(self) -> list[str]:
        """Return the overrides of the jobs' command line, without those of their plan."""
        gpus = self.gpus if self.on_gpus else 0  # per run
        numbers = {
            "workers": self.workers,
            "gpus": self.gpus if self.devices else 0,
            "cores": max(CORES_PER_GPU * gpus, 2),
            "memory_gb": max(MEMORY_GB_PER_GPU * gpus, 16),
        }
        texts = [f"launcher={self.launcher}", f"workers={self.workers}", f"gpus={self.gpus}"]
        for text, replaced_by in self.facts.overrides.items():
            if replaced_by not in self.settings:
                texts.append(text.format(**numbers))
        for key, value in self.settings.items():
            texts.append(f"hydra.launcher.{key}={value}")
        return texts


def load_facts(launcher: str) -> LauncherFacts:
    """Return the facts of conf/launcher/<launcher>.yaml.

    Raises ValueError if they are invalid or missing.
    """
    check_known("launcher", [launcher], choices("launcher"))
    facts = read_yaml_file(CONF / "launcher" / f"{launcher}.yaml").get("launcher", {})
    return LauncherFacts.checked(facts, f"conf/launcher/{launcher}.yaml: launcher.")


def choose_launch(
    launcher: str,
    *,
    workers: int | None,
    gpus: int,
    settings: Sequence[str],
    on_cpu: bool,
    threads: int = 1,
) -> Launch:
    """Return where runs are made.

    None for `workers` means as many as this machine has GPUs or cores for.

    Without GPUs each then has one core per thread: two runs with one thread each beat one run with
    two. Raises ValueError if the launcher is not installed, lacks a setting, or this machine lacks
    GPUs.
    """
    facts = load_facts(launcher)
    if facts.plugin is not None and importlib.util.find_spec(facts.plugin) is None:
        raise ValueError(f"launcher {launcher}: not installed: {install_command('cluster')}")
    if facts.requires is not None and shutil.which(facts.requires) is None:
        hint = "submit from a machine that has it"
        raise ValueError(f"launcher {launcher}: no {facts.requires} here; {hint}")
    devices = [] if on_cpu else [str(index) for index in range(usable_devices())]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible:
        devices = visible.split(",")[: len(devices)]
    if facts.local and not on_cpu:
        check_devices(gpus)
    values = dict(setting.removeprefix("launcher.").split("=", 1) for setting in settings)
    if facts.workers in values:
        raise ValueError(f"launcher.{facts.workers}={values[facts.workers]}: write workers=N")
    if workers is None:
        room = len(devices) or len(os.sched_getaffinity(0)) // threads
        workers = max(1, room // gpus)
    launch = Launch(
        launcher,
        facts,
        workers,
        gpus,
        devices,
        values,
    )
    _check_settings(launch)
    return launch


def _check_settings(launch: Launch) -> None:
    """Raise ValueError, in one line, if the launcher lacks a setting or refuses its value."""
    read_yaml_file(CONF / "job.yaml")  # Hydra reads it below; its own message would have many lines
    line = [*launch.overrides(), "plan=nowhere", "index=0"]
    try:
        with initialize_config_dir(str(CONF), version_base="1.3"):
            compose("job", line, return_hydra_config=True)
    except (HydraException, OmegaConfBaseException) as error:
        problem = one_line(error).replace("hydra.launcher.", "launcher.")
        if problem.startswith("unknown key"):
            problem = problem.partition(": ")[0]
        file = f"conf/launcher/{launch.launcher}.yaml"
        raise ValueError(f"{problem}: {file} has the settings") from None


def run_all(
    runs: Sequence[Planned], launch: Launch, name: str, runs_folder: str | None
) -> list[Planned]:
    """Make all runs, print a line as each ends, and return those that failed.

    A run that fails stops no other. The result of a run is read from its record. If another process
    is making a run, it is waited for, and the run is made here if that process left it unfinished.
    The jobs' logs go into a new folder, whose name begins with `name`, in studies/ of the folder of
    runs, or of outputs/.
    """
    folder = _write_plan(runs, launch, name, runs_folder)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    remaining = list(range(len(runs)))
    while remaining:
        _launch(runs, remaining, launch, folder)
        held = []
        for index in remaining:
            if _state(runs[index], _code(folder, index)) == "held":
                held.append(index)
        if held:
            print(f"{counted(len(held), 'run')} held by another process: waiting", flush=True)
        while any(is_locked(runs[index].experiment.folder()) for index in held):
            time.sleep(1)
        remaining = [index for index in held if not _is_made(runs[index])]
    return [run for run in runs if not _is_made(run)]


def _write_plan(
    runs: Sequence[Planned], launch: Launch, name: str, runs_folder: str | None
) -> Path:
    """Return a new folder with plan.json, from which the jobs read their runs."""
    parent = (Path(runs_folder) if runs_folder else PROJECT / "outputs") / "studies"
    create_folder(parent)
    folder = Path(mkdtemp(prefix=f"{name}-{time.strftime('%Y-%m-%d_%H-%M-%S')}-", dir=parent))
    plan = {
        "cwd": os.getcwd(),
        "aloud": launch.aloud,
        "runs": [[*run.arguments, *_of_logger(run, name)] for run in runs],
        "devices": launch.devices if launch.facts.local else [],
        "runs_a_device": launch.runs_per_device,
    }
    write_whole(folder / "plan.json", json.dumps(plan, indent=1).encode())
    return folder


def _of_logger(run: Planned, study: str) -> list[str]:
    """Return the overrides that make a study's runs one group of a logger."""
    if run.experiment.logger.name == "files":
        return []
    return [f"++logger.group={quoted(study)}", f"++logger.label={quoted(run.name)}"]


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    for ignored in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)  # the jobs are ending
    with suppress(OSError):  # the terminal may be closed
        print("stopped: the next start resumes the runs from their checkpoints", file=sys.stderr)
    raise SystemExit(128 + number)


def _is_made(run: Planned) -> bool:
    return reader.is_complete(run.experiment.folder())


def _state(run: Planned, code: str) -> str:
    """Return made, held or failed.

    Also held if another process had the run when its job started.
    """
    is_held = is_locked(run.experiment.folder())  # checked first: the run may end in between
    if _is_made(run):
        return "made"
    return "held" if is_held or code == str(HELD_CODE) else "failed"


def _code(folder: Path, index: int) -> str:
    path = folder / f"{index}.ended"
    return path.read_text("utf-8") if path.exists() else "no exit code"


def _launch(runs: Sequence[Planned], indices: Sequence[int], launch: Launch, folder: Path) -> None:
    """Hand the runs of these indices to the launcher and wait until it has finished with them."""
    for index in indices:
        (folder / f"{index}.ended").unlink(missing_ok=True)
    command = [sys.executable, "-m", "adanorm.studies.job", "-m", *launch.overrides()]
    command.append(f"index={','.join(map(str, indices))}")
    command.append(f"plan={quoted(str(folder.resolve()))}")
    pending = list(indices)
    path = folder / "launcher.log"
    with path.open("a", encoding="utf-8") as log:
        output = None if launch.aloud else log
        with _group(command, output) as process:
            while pending:
                # Checked before the jobs: the last may end in between.
                is_over = process.poll() is not None
                for index in [*pending]:
                    if is_over or (folder / f"{index}.ended").exists():
                        pending.remove(index)
                        _report(runs, index, folder)
                if pending:
                    time.sleep(SECONDS)
            code = process.wait()
    if code:
        last = path.read_text("utf-8", "replace").strip().splitlines()[-1:]
        print(f"launcher {launch.launcher}: ended with {code} {' '.join(last)}", flush=True)
        print(f"its log: {path_text(folder)}", flush=True)


@contextmanager
def _group(command: Sequence[str], output: IO[str] | None) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process in a group of its own.

    After a block, end all processes that are left in the group.

    However this process ends, Linux sends SIGTERM to the new process, which then ends its group.
    """
    process = subprocess.Popen(
        command,
        stdout=output,
        stderr=output,
        start_new_session=True,
        preexec_fn=end_with_parent(signal.SIGTERM),  # noqa: PLW1509
    )
    try:
        yield process
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            deadline = time.monotonic() + PATIENCE
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
                while time.monotonic() < deadline:
                    process.poll()  # a zombie still counts in the group
                    os.killpg(process.pid, 0)
                    time.sleep(0.05)
        process.wait()


def _report(runs: Sequence[Planned], index: int, folder: Path) -> None:
    """Print how the run of an index has ended, with its outcome or the end of its log."""
    run = runs[index]
    code = _code(folder, index)
    state = _state(run, code)
    words = {"made": "ended", "held": "held by another process", "failed": f"FAILED with {code}"}
    print(f"[{index + 1}/{len(runs)}] {run.name}: {words[state]}", flush=True)
    result = reader.result(run.experiment.folder())
    log = folder / f"{index}.log"
    details = []
    if result is not None and (state == "made" or code == "1"):  # 1: a failure on record
        details = [outcome(run.experiment.task, result)]
    elif state == "failed" and log.exists():
        details = log.read_text("utf-8", "replace").strip().splitlines()[-3:]
    for line in details:
        if line.strip():
            text = textwrap.fill(
                line,
                80,
                initial_indent="  ",
                subsequent_indent="    ",
            )
            print(text, flush=True)
