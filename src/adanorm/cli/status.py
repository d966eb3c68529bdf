"""Show for each cell of a study how many of its runs are done, running or failed, and the time left.

Without the name of a study, show one line per study.
"""

import textwrap
import time
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from adanorm.cli.command import Arguments, Key, Usage, folder_of, show
from adanorm.cli.study_arguments import STUDY_KEYS, chosen_study, study_names
from adanorm.config.errors import whole_number
from adanorm.config.experiment import Experiment
from adanorm.config.titles import counted, in_words, title
from adanorm.records import reader
from adanorm.records.folder import RunFolder, is_held_elsewhere, is_locked
from adanorm.records.lines import unchanging
from adanorm.runs.duration import seconds_left
from adanorm.studies.study import StudyGrid, load_study, plan_runs, study_grid

STATES = ("done", "running", "diverged", "failed", "missing")
LABEL, FIELD = 32, 9  # widths of a row's label, and of a count
NAME, HOURS = 20, 15  # widths of a study's name, and of its time left
HEADS = "".join(f"{state:>{FIELD}}" for state in STATES)

USAGE = Usage(
    name="[STUDY]", choices=study_names, keys={**STUDY_KEYS, "workers": Key("runs at a time", "1")},
    examples=("", "table4", "mini-all seeds=1 workers=2"),
)  # fmt: skip


class RunProgress(NamedTuple):
    """A run's task and state, the seconds that it still takes, and whether on a GPU."""

    task: str
    state: str
    left: float
    on_gpu: bool


@unchanging()
def main(arguments: Arguments) -> None:
    """Print the states of the study that the command line names, or of all studies."""
    workers = whole_number(
        "workers",
        arguments.keys["workers"],
        at_most=1024,
    )
    if not arguments.names:
        _show_all(arguments, workers)
        return
    name, study, _ = chosen_study(arguments)
    grid = study_grid(study, runs=folder_of(arguments.keys["runs"]))
    progress = _progress(grid, {})
    print(f"{name}, {study.scale}: {counted(len(progress), 'run')}, {_counts(progress.values())}")
    for task in study.columns:
        cells = {row: grid[row, task].runs for row in study.rows if grid[row, task].runs}
        if cells:
            print(f"{title(task, study.scale):<{LABEL}}{HEADS}")
        for row, runs in cells.items():
            label = textwrap.shorten(
                title(row),
                LABEL - 2,
                placeholder="...",
            )
            print(f"  {label:<{LABEL - 2}}{_fields([progress[run.folder()] for run in runs])}")
    _show_time_left(progress.values(), workers)


def _show_all(arguments: Arguments, workers: int) -> None:
    """Print one line per study, sorted by name, and the time left for all runs together."""
    for key in ("scale", "precision", "seeds", "task"):
        if arguments.keys[key]:
            names = ", ".join(study_names())
            raise ValueError(f"{key}= needs the name of one study: choose from {names}")
    folder = folder_of(arguments.keys["runs"])
    all_runs: dict[Path, RunProgress] = {}
    print(f"{'study':<{NAME}}{HEADS}{'left':>{HOURS}}", flush=True)
    for name in study_names():
        runs = _progress(study_grid(load_study(name), runs=folder), all_runs)
        seconds = sum(run.left for run in runs.values() if not run.on_gpu)
        words = [in_words(seconds / 3600 / workers)] if seconds else []
        if any(run.left for run in runs.values() if run.on_gpu):
            words.append("GPU")
        left = " + ".join(words) or "-"
        # A longer name has a line of its own.
        label = name if len(name) < NAME else f"{name}\n{'':<{NAME}}"
        print(f"{label:<{NAME}}{_fields(runs.values())}{left:>{HOURS}}", flush=True)
    show(f"all: {len(all_runs)} runs, those of several studies once: {_counts(all_runs.values())}")
    _show_time_left(all_runs.values(), workers)


def _progress(grid: StudyGrid, known: dict[Path, RunProgress]) -> dict[Path, RunProgress]:
    """Return the progress of each run by its folder; runs that are new to `known` are added to it."""
    progress = {}
    for planned in plan_runs(grid):
        run, folder = planned.experiment, planned.experiment.folder()
        if folder not in known:
            now = state(run)
            left = seconds_left(run, now)
            known[folder] = RunProgress(
                run.task.name,
                now,
                left,
                run.cost.needs_gpu,
            )
        progress[folder] = known[folder]
    return progress


def _show_time_left(runs: Collection[RunProgress], workers: int) -> None:
    seconds = sum(run.left for run in runs if not run.on_gpu)
    if seconds:
        time_left = in_words(seconds / 3600 / workers)
        print(f"time left: about {time_left} with {counted(workers, 'worker')}")
    on_gpu = [run for run in runs if run.on_gpu and run.left]
    if on_gpu:
        counts = Counter(title(run.task) for run in on_gpu)
        by_task = ", ".join(f"{name} {count}" for name, count in counts.items())
        span = in_words(sum(run.left for run in on_gpu) / 3600)
        show(f"need a GPU: {by_task} runs, about {span} on one")


def state(run: Experiment) -> str:
    """Return the state of a run: done, running, diverged, failed or missing.

    A run is running if its folder is locked. Another machine may not see the lock: for it, a run
    that was not stopped is running if its checkpoint is younger than two intervals between
    checkpoints.
    """
    folder = run.folder()
    if folder.name not in reader.names(folder.parent):
        return "missing"
    # Read before the result, which is written while the folder is locked.
    locked = is_locked(folder)
    result = reader.result(folder)
    if result is not None and (result.is_complete or not locked):
        return result.status
    if locked:
        return "running"
    try:
        age = time.time() - RunFolder(folder).checkpoint.stat().st_mtime
    except FileNotFoundError:
        return "missing"
    is_young = age < 2 * 60 * run.checkpoint_minutes
    return "running" if is_young and is_held_elsewhere(folder) else "missing"


def _fields(runs: Collection[RunProgress]) -> str:
    count = Counter(run.state for run in runs)
    return "".join(f"{count[state] or '-':>{FIELD}}" for state in STATES)


def _counts(runs: Collection[RunProgress]) -> str:
    count = Counter(run.state for run in runs)
    return ", ".join(f"{count[state]} {state}" for state in STATES if count[state])
