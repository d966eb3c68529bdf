"""Show where a study stands: a line a cell, how many of its runs are in which state, the time left.

Without a study, a line for each of them.
"""

from __future__ import annotations

import textwrap
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from adanorm.cli.command import WIDTH, Arguments, Usage
from adanorm.cli.study_arguments import STUDY_KEYS, chosen_study, runs_of, study_names, workers_of
from adanorm.config.experiment import Experiment
from adanorm.records import reader
from adanorm.records.folder import RunFolder, is_locked
from adanorm.reporting.names import title
from adanorm.runs.auto_scale import in_words
from adanorm.runs.duration import Durations, needs_gpu
from adanorm.studies.grid import StudyGrid, plan_runs, study_grid
from adanorm.studies.study import load_study

STATES = ("done", "running", "diverged", "failed", "missing")
LABEL, FIELD = 32, 9  # columns of a row's label, and of a count

NAME, HOURS = 20, 15  # columns of a study's name, and of its time left

USAGE = Usage(
    name="STUDY", choices=study_names, most=1, keys=STUDY_KEYS,
    examples=("", "table4", "mini-all seeds=1 workers=2"),
)  # fmt: skip


class Progress(NamedTuple):
    """Where runs stand, by their folders: the runs, their states, the seconds that each still takes."""

    runs: dict[Path, Experiment]
    states: dict[Path, str]
    left: dict[Path, float]

    @classmethod
    def of(cls, grid: StudyGrid, durations: Durations) -> Progress:
        """Return where a study's runs stand."""
        runs = {planned.experiment.folder(): planned.experiment for planned in plan_runs(grid)}
        states = {folder: state(run) for folder, run in runs.items()}
        left = {folder: durations.seconds_left(run, states[folder]) for folder, run in runs.items()}
        return cls(runs, states, left)

    def slow(self) -> dict[Path, Experiment]:
        """Return the runs yet to be made that need a GPU."""
        return {folder: run for folder, run in self.runs.items() if self.left[folder] and needs_gpu(run)}

    def seconds_here(self) -> float:
        """Return how long the runs that need no GPU still take, one at a time."""
        slow = self.slow()
        return sum(seconds for folder, seconds in self.left.items() if folder not in slow)


def main(arguments: Arguments) -> None:
    """Print the states of the study that the command line names, or of all studies."""
    workers = workers_of(arguments) or 1
    if not arguments.names:
        _show_all(arguments, workers)
        return
    name, study, _ = chosen_study(arguments)
    grid = study_grid(study, runs=runs_of(arguments))
    progress = Progress.of(grid, Durations())
    print(f"{name}, {study.scale}: {len(progress.runs)} runs, {_counts(progress)}")
    for task in study.columns:
        cells = {row: grid[row, task].runs for row in study.rows if grid[row, task].runs}
        if not cells:
            continue
        print(f"{title(task):<{LABEL}}" + "".join(f"{state:>{FIELD}}" for state in STATES))
        for row, cell in cells.items():
            count = Counter(progress.states[run.folder()] for run in cell)
            label = f"  {title(row)}"
            label = label if len(label) <= LABEL else f"{label[: LABEL - 3]}..."
            print(f"{label:<{LABEL}}" + _fields(count))
    _show_time_left(progress, workers)


def _show_all(arguments: Arguments, workers: int) -> None:
    """Print a line a study, in order of its name, and the time left for the runs of all together."""
    if meant := arguments.given & {"task", "scale", "seeds"}:
        raise ValueError(f"{min(meant)}= is of one study: choose from {', '.join(study_names())}")
    print(f"{'study':<{NAME}}" + "".join(f"{state:>{FIELD}}" for state in STATES) + f"{'left':>{HOURS}}")
    durations, whole = Durations(), Progress({}, {}, {})
    for name in study_names():
        progress = Progress.of(study_grid(load_study(name), runs=runs_of(arguments)), durations)
        hours = progress.seconds_here() / 3600 / workers
        left = " + ".join([*([in_words(hours)] if hours else []), *(["GPU"] if progress.slow() else [])])
        print(f"{name:<{NAME}}{_fields(Counter(progress.states.values()))}{left or '-':>{HOURS}}")
        whole.runs.update(progress.runs)
        whole.states.update(progress.states)
        whole.left.update(progress.left)
    print(f"all: {len(whole.runs)} runs, those of several studies once: {_counts(whole)}")
    _show_time_left(whole, workers)


def _show_time_left(progress: Progress, workers: int) -> None:
    if seconds := progress.seconds_here():
        print(f"time left: about {in_words(seconds / 3600 / workers)} with {workers} worker(s)")
    if slow := progress.slow():
        counts = Counter(title(run.task.name) for run in slow.values())
        listed = ", ".join(f"{name} {count}" for name, count in counts.items())
        span = in_words(sum(progress.left[folder] for folder in slow) / 3600)
        text = f"need a GPU: {listed} runs, about {span} on one"
        print(textwrap.fill(text, WIDTH, subsequent_indent="  "))


def state(run: Experiment) -> str:
    """Return what a run is: done, running, diverged, failed or missing.

    It runs where its folder is locked or, seen from a machine that sees no lock, where its
    checkpoint is younger than two intervals between checkpoints.
    """
    folder = run.folder()
    checkpoint = RunFolder(folder).checkpoint
    # Asked before the result, which is written while the folder is locked.
    held = is_locked(folder)
    result = reader.result(folder)
    if result is not None and (result.is_complete or not held):
        return result.status
    try:
        age = time.time() - checkpoint.stat().st_mtime
    except FileNotFoundError:
        return "running" if held else "missing"
    return "running" if held or age < 2 * 60 * run.checkpoint_minutes else "missing"


def _fields(count: Mapping[str, int]) -> str:
    return "".join(f"{count[state] or '-':>{FIELD}}" for state in STATES)


def _counts(progress: Progress) -> str:
    total = Counter(progress.states.values())
    return ", ".join(f"{total[state]} {state}" for state in STATES if total[state])
