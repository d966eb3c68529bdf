"""Show where a study stands: a line a cell, how many of its runs are in which state, the time left.

Without a study, a line for each of them.
"""

from __future__ import annotations

import textwrap
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from adanorm.cli.command import WIDTH, Arguments, Usage
from adanorm.cli.study_arguments import STUDY_KEYS, chosen_study, runs_of, study_names, workers_of
from adanorm.config.experiment import Experiment
from adanorm.config.titles import title
from adanorm.records import reader
from adanorm.records.folder import RunFolder, is_locked
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


class RunProgress(NamedTuple):
    """Where a run stands: its state, and the seconds that it still takes."""

    run: Experiment
    state: str
    left: float

    @property
    def waits_for_gpu(self) -> bool:
        """Whether it is yet to be made and needs a GPU."""
        return self.left > 0 and needs_gpu(self.run)


Progress = dict[Path, RunProgress]  # by the runs' folders


def main(arguments: Arguments) -> None:
    """Print the states of the study that the command line names, or of all studies."""
    workers = workers_of(arguments) or 1
    if not arguments.names:
        _show_all(arguments, workers)
        return
    name, study, _ = chosen_study(arguments)
    grid = study_grid(study, runs=runs_of(arguments))
    progress = _progress(grid, Durations())
    print(f"{name}, {study.scale}: {len(progress)} runs, {_counts(progress)}")
    for task in study.columns:
        cells = {row: grid[row, task].runs for row in study.rows if grid[row, task].runs}
        if not cells:
            continue
        print(f"{title(task):<{LABEL}}" + "".join(f"{state:>{FIELD}}" for state in STATES))
        for row, cell in cells.items():
            count = Counter(progress[run.folder()].state for run in cell)
            label = f"  {title(row)}"
            label = label if len(label) <= LABEL else f"{label[: LABEL - 3]}..."
            print(f"{label:<{LABEL}}" + _fields(count))
    _show_time_left(progress, workers)


def _show_all(arguments: Arguments, workers: int) -> None:
    """Print a line a study, in order of its name, and the time left for the runs of all together."""
    if meant := arguments.given & {"task", "scale", "seeds"}:
        raise ValueError(f"{min(meant)}= is of one study: choose from {', '.join(study_names())}")
    print(f"{'study':<{NAME}}" + "".join(f"{state:>{FIELD}}" for state in STATES) + f"{'left':>{HOURS}}")
    durations, whole = Durations(), Progress()
    for name in study_names():
        progress = _progress(study_grid(load_study(name), runs=runs_of(arguments)), durations)
        seconds, slow = _left(progress)
        words = [*([in_words(seconds / 3600 / workers)] if seconds else []), *(["GPU"] if slow else [])]
        print(f"{name:<{NAME}}{_fields(_total(progress))}{' + '.join(words) or '-':>{HOURS}}")
        whole |= progress
    text = f"all: {len(whole)} runs, those of several studies once: {_counts(whole)}"
    print(textwrap.fill(text, WIDTH, subsequent_indent="  "))
    _show_time_left(whole, workers)


def _progress(grid: StudyGrid, durations: Durations) -> Progress:
    """Return where a study's runs stand."""
    found = Progress()
    for planned in plan_runs(grid):
        run = planned.experiment
        now = state(run)
        found[run.folder()] = RunProgress(run, now, durations.seconds_left(run, now))
    return found


def _left(progress: Progress) -> tuple[float, list[RunProgress]]:
    """Return how many seconds the runs without a GPU still take, one at a time, and those that need one."""
    here = sum(each.left for each in progress.values() if not each.waits_for_gpu)
    return here, [each for each in progress.values() if each.waits_for_gpu]


def _show_time_left(progress: Progress, workers: int) -> None:
    seconds, slow = _left(progress)
    if seconds:
        print(f"time left: about {in_words(seconds / 3600 / workers)} with {workers} worker(s)")
    if slow:
        counts = Counter(title(each.run.task.name) for each in slow)
        listed = ", ".join(f"{name} {count}" for name, count in counts.items())
        span = in_words(sum(each.left for each in slow) / 3600)
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


def _total(progress: Progress) -> Counter[str]:
    return Counter(each.state for each in progress.values())


def _fields(count: Counter[str]) -> str:
    return "".join(f"{count[state] or '-':>{FIELD}}" for state in STATES)


def _counts(progress: Progress) -> str:
    total = _total(progress)
    return ", ".join(f"{total[state]} {state}" for state in STATES if total[state])
