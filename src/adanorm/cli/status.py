"""Show where a study stands: a line a cell, how many of its runs are in which state, the time left."""

from __future__ import annotations

import textwrap
import time
from collections import Counter

from adanorm.cli.command import WIDTH, Arguments, Usage
from adanorm.cli.study_arguments import STUDY_KEYS, chosen_study, runs_of, study_names, workers_of
from adanorm.config.experiment import Experiment
from adanorm.records import reader
from adanorm.records.folder import RunFolder, is_locked
from adanorm.reporting.names import title
from adanorm.runs.auto_scale import in_words
from adanorm.runs.duration import needs_gpu, seconds_left
from adanorm.studies.grid import plan_runs, study_grid

STATES = ("done", "running", "diverged", "failed", "missing")
LABEL, FIELD = 32, 9  # columns of a row's label, and of a count

USAGE = Usage(
    name="STUDY", choices=study_names, fewest=1, most=1, keys=STUDY_KEYS,
    examples=("table4", "mini-all seeds=1 workers=2"),
)  # fmt: skip


def main(arguments: Arguments) -> None:
    """Print the states of the study that the command line names."""
    name, study, _ = chosen_study(arguments)
    workers = workers_of(arguments) or 1
    grid = study_grid(study, runs=runs_of(arguments))
    runs = {planned.experiment.folder(): planned.experiment for planned in plan_runs(grid)}
    states = {folder: state(run) for folder, run in runs.items()}
    total = Counter(states.values())
    left = {folder: seconds_left(run, states[folder]) for folder, run in runs.items()}
    slow = {folder: run for folder, run in runs.items() if left[folder] and needs_gpu(run)}
    print(f"{name}, {study.scale}: {len(runs)} runs, {_counts(total)}")
    for task in study.columns:
        cells = {row: grid[row, task].runs for row in study.rows if grid[row, task].runs}
        if not cells:
            continue
        print(f"{title(task):<{LABEL}}" + "".join(f"{state:>{FIELD}}" for state in STATES))
        for row, cell in cells.items():
            count = Counter(states[run.folder()] for run in cell)
            label = f"  {title(row)}"
            label = label if len(label) <= LABEL else f"{label[: LABEL - 3]}..."
            print(f"{label:<{LABEL}}" + "".join(f"{count[state] or '-':>{FIELD}}" for state in STATES))
    if here := sum(seconds for folder, seconds in left.items() if folder not in slow):
        print(f"time left: about {in_words(here / 3600 / workers)} with {workers} worker(s)")
    if slow:
        counts = Counter(title(run.task.name) for run in slow.values())
        listed = ", ".join(f"{name} {count}" for name, count in counts.items())
        span = in_words(sum(left[folder] for folder in slow) / 3600)
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


def _counts(total: Counter[str]) -> str:
    return ", ".join(f"{total[state]} {state}" for state in STATES if total[state])
