"""Handing runs to Hydra's launchers, local processes, Ray or SLURM, and telling how they end."""

from __future__ import annotations

import json
import os
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from adanorm.config.overrides import assigned
from adanorm.files import write_whole
from adanorm.launch import lifeline
from adanorm.launch.launchers import Launch
from adanorm.records import reader
from adanorm.records.folder import HELD_CODE, is_locked, shown
from adanorm.records.outcome import outcome
from adanorm.studies.grid import Planned

SECONDS = 0.2  # between two looks at the jobs


def run_all(
    runs: Sequence[Planned], launch: Launch, folder: Path, *, ended: Callable[[], None] = lambda: None
) -> list[Planned]:
    """Make runs, print a line as each ends, and return those that failed; one failing stops no other.

    What a run came to is read from its record. A run that another process holds is waited for, and
    made here if that process left it unfinished. The jobs' logs go into `folder`; `ended` is called
    after every line.
    """
    plan = {
        "cwd": os.getcwd(),
        "devices": launch.devices if launch.facts.local else [],
        "runs_a_device": launch.runs_a_device,
        "aloud": launch.aloud,
        "local": launch.facts.local,
        "runs": [run.arguments for run in runs],
    }
    folder.mkdir(parents=True)
    write_whole(folder / "plan.json", json.dumps(plan, indent=1).encode())
    left = list(range(len(runs)))
    with lifeline.held(folder):
        while left:
            _launch(runs, left, launch, folder, ended)
            left = [index for index in left if _is_held(runs[index], folder / f"{index}.ended")]
            if left:
                print(f"{len(left)} run(s) held by another process: waiting for them", flush=True)
            while any(_state(runs[index]) == "held" for index in left):
                time.sleep(5)
            left = [index for index in left if _state(runs[index]) != "made"]
    return [run for run in runs if _state(run) != "made"]


def _state(run: Planned) -> str:
    folder = run.experiment.folder()
    held = is_locked(folder)  # asked first: a run may end in between
    return "made" if reader.is_complete(folder) else "held" if held else "failed"


def _is_held(run: Planned, ended: Path) -> bool:
    """Return whether another process is writing a run, or was when its job came to it."""
    state = _state(run)
    return state == "held" or (state == "failed" and _code(ended) == str(HELD_CODE))


def _code(ended: Path) -> str:
    return ended.read_text("utf-8") if ended.exists() else "no exit code"


def _launch(
    runs: Sequence[Planned], chosen: Sequence[int], launch: Launch, folder: Path, ended: Callable[[], None]
) -> None:
    """Hand some of the runs to the launcher and wait until it has done with them."""
    waited = set(chosen)
    for index in chosen:
        (folder / f"{index}.ended").unlink(missing_ok=True)
    indices = ",".join(map(str, chosen))
    plan = assigned("plan", str(folder.resolve()))
    job = [sys.executable, "-m", "adanorm.launch.job", "-m"]
    command = [*job, f"index={indices}", plan, *launch.overrides()]
    with (folder / "launcher.log").open("a", encoding="utf-8") as log:
        output = None if launch.aloud else log
        with lifeline.process_group(command, output) as process:
            while waited:
                working = process.poll() is None  # asked before the jobs, the last of which may just end
                for index in sorted(waited):
                    if (folder / f"{index}.ended").exists():
                        waited.remove(index)
                        _report(runs, index, folder)
                        ended()
                if not working:
                    break
                time.sleep(SECONDS)
            process.wait()
    for index in sorted(waited):
        _report(runs, index, folder)
        ended()
    if process.returncode:
        last = (folder / "launcher.log").read_text("utf-8", "replace").strip().splitlines()[-1:]
        print(f"launcher {launch.launcher}: ended with {process.returncode} {' '.join(last)}", flush=True)
        print(f"its log: {shown(folder)}", flush=True)


def _report(runs: Sequence[Planned], index: int, folder: Path) -> None:
    ended, log = folder / f"{index}.ended", folder / f"{index}.log"
    code = _code(ended)
    state = "held" if _is_held(runs[index], ended) else _state(runs[index])
    text = {"made": "ended", "held": "held by another process"}.get(state, f"FAILED with {code}")
    lines = [f"[{index + 1}/{len(runs)}] {runs[index].name}: {text}"]
    experiment = runs[index].experiment
    result = reader.result(experiment.folder())
    details: list[str] = []
    if result is not None and (state == "made" or code == "1"):  # 1: it broke in training, which is recorded
        details = [outcome(experiment.task, result)]
    elif state == "failed" and log.exists():
        details = log.read_text("utf-8", "replace").strip().splitlines()[-3:]
    for line in details:
        lines += textwrap.wrap(line, 80, initial_indent="  ", subsequent_indent="    ")
    print("\n".join(lines), flush=True)
