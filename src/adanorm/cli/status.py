"""Show where a study stands: one line per cell, how many of its runs are in which state, the time left.

Without a study, a line for each of them.
"""

from __future__ import annotations

import textwrap
import time
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

from adanorm.cli.command import WIDTH, Arguments, Usage
from adanorm.cli.study_arguments import STUDY_KEYS, chosen_study, runs_of, study_names, workers_of
from adanorm.config.experiment import Experiment
from adanorm.config.titles import title
from adanorm.records import reader
from adanorm.records.folder import RunFolder, is_locked
from adanorm.runs.duration import Durations, in_words, needs_gpu
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
    print(f"{name}, {study.scale}: {len(progress)} runs, {_counts(progress.values())}")
    for task in study.columns:
        cells = {row: grid[row, task].runs for row in study.rows if grid[row, task].runs}
        if not cells:
            continue
        print(f"{title(task):<{LABEL}}" + "".join(f"{state:>{FIELD}}" for state in STATES))
        for row, cell in cells.items():
            label = f"  {title(row)}"
            label = label if len(label) <= LABEL else f"{label[: LABEL - 3]}..."
            print(f"{label:<{LABEL}}" + _fields(progress[run.folder()] for run in cell))
    _show_time_left(progress.values(), workers)


def _show_all(arguments: Arguments, workers: int) -> None:
    """Print one line per study, in order of its name, and the time left for the runs of all together."""
    if meant := arguments.given & {"task", "scale", "seeds"}:
        raise ValueError(f"{min(meant)}= is of one study: choose from {', '.join(study_names())}")
    print(f"{'study':<{NAME}}" + "".join(f"{state:>{FIELD}}" for state in STATES) + f"{'left':>{HOURS}}")
    durations, whole = Durations(), Progress()
    for name in study_names():
        progress = _progress(study_grid(load_study(name), runs=runs_of(arguments)), durations)
        here, on_gpu = _left(progress.values())
        seconds = sum(run.left for run in here)
        words = [*([in_words(seconds / 3600 / workers)] if seconds else []), *(["GPU"] if on_gpu else [])]
        print(f"{name:<{NAME}}{_fields(progress.values())}{' + '.join(words) or '-':>{HOURS}}")
        whole |= progress
    text = f"all: {len(whole)} runs, those of several studies once: {_counts(whole.values())}"
    print(textwrap.fill(text, WIDTH, subsequent_indent="  "))
    _show_time_left(whole.values(), workers)


def _progress(grid: StudyGrid, durations: Durations) -> Progress:
    """Return where a study's runs stand."""
    runs = [planned.experiment for planned in plan_runs(grid)]
    states = [state(run) for run in runs]
    return {
        run.folder(): RunProgress(run, now, durations.seconds_left(run, now))
        for run, now in zip(runs, states, strict=True)
    }


def _left(runs: Iterable[RunProgress]) -> tuple[list[RunProgress], list[RunProgress]]:
    """Return the runs that are yet to be made, those without and those with need of a GPU."""
    left = [run for run in runs if run.left > 0]
    return [run for run in left if not needs_gpu(run.run)], [run for run in left if needs_gpu(run.run)]


def _show_time_left(runs: Collection[RunProgress], workers: int) -> None:
    here, on_gpu = _left(runs)
    if here:
        span = in_words(sum(run.left for run in here) / 3600 / workers)
        print(f"time left: about {span} with {workers} worker(s)")
    if on_gpu:
        counts = Counter(title(run.run.task.name) for run in on_gpu)
        listed = ", ".join(f"{name} {count}" for name, count in counts.items())
        span = in_words(sum(run.left for run in on_gpu) / 3600)
        text = f"need a GPU: {listed} runs, about {span} on one"
        print(textwrap.fill(text, WIDTH, subsequent_indent="  "))


def state(run: Experiment) -> str:
    """Return what a run is: done, running, diverged, failed or missing.

    It runs where its folder is locked or, seen from a machine that sees no lock, where its
    checkpoint is younger than two intervals between checkpoints.
    """
    folder = run.folder()
    held = is_locked(folder)  # asked before the result, which is written while the folder is locked
    result = reader.result(folder)
    if result is not None and (result.is_complete or not held):
        return result.status
    try:
        age = time.time() - RunFolder(folder).checkpoint.stat().st_mtime
    except FileNotFoundError:
        return "running" if held else "missing"
    return "running" if held or age < 2 * 60 * run.checkpoint_minutes else "missing"


def _fields(runs: Iterable[RunProgress]) -> str:
    count = Counter(run.state for run in runs)
    return "".join(f"{count[state] or '-':>{FIELD}}" for state in STATES)


def _counts(runs: Iterable[RunProgress]) -> str:
    count = Counter(run.state for run in runs)
    return ", ".join(f"{count[state]} {state}" for state in STATES if count[state])
