"""Run what a study lacks and print its table: `python -m adanorm.study table1 --workers 2`."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from adanorm import compose, studies
from adanorm.config import PROJECT, Experiment, choices
from adanorm.records import reader
from adanorm.reporting.formats import terminal
from adanorm.reporting.published import published_tasks
from adanorm.reporting.tables import Table
from adanorm.tables import write


def main() -> int:
    """Run a study; the code is 1 if some run failed."""
    arguments = _arguments()
    study = studies.load(arguments.study, known_tasks=published_tasks())
    # At another scale than the study's own, the table is another.
    name = Path(arguments.study).stem
    scale = arguments.scale or study.scale
    name = name if scale == study.scale else f"{name}-{scale}"
    study = study.model_copy(update={"scale": scale, "seeds": arguments.seeds or study.seeds})
    grid = studies.grid(study, runs=arguments.runs)
    # Every cell gets its first seed before any gets its second.
    runs = [cell[index] for index in range(len(study.seeds)) for cell in grid.values() if cell]
    missing = [run for run in runs if not reader.is_made(run.folder())]
    hours = sum(run.cost.cpu_hours for run in missing) / arguments.workers
    print(
        f"{name}: {len(runs)} runs, {len(runs) - len(missing)} made before,"
        f" {len(missing)} to run with {arguments.workers} worker(s)"
        + (f", about {hours:.1f} hours on CPU" if missing else "")
    )
    failed = _run_all(study, missing, arguments.workers)
    table = Table(study, grid)
    write(table, name, Path(arguments.runs) / "tables" if arguments.runs else None)
    print(terminal(table))
    for run in failed:
        print(f"failed: {run.task.name} {run.norm.name} seed {run.seed}", file=sys.stderr)
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = compose.Parser(prog="adanorm.study", description=__doc__)
    parser.add_argument("study", help=f"one of {', '.join(choices('study'))}, or your own .yaml")
    parser.add_argument("--scale", choices=choices("scale"), help="default: the study's own")
    parser.add_argument("--seeds", type=_seeds, help="such as 1,2,3; default: the study's own")
    parser.add_argument("--workers", type=int, default=1, help="runs at a time, a thread each")
    parser.add_argument("--runs", help="folder of the records and tables; default: results/")
    parsed = parser.parse_args()
    if parsed.workers < 1:
        raise ValueError(f"--workers {parsed.workers}: must be at least 1")
    return parsed


def _seeds(text: str) -> list[int]:
    if not all(seed.isdecimal() for seed in text.split(",")):
        raise argparse.ArgumentTypeError(f"{text!r}: write whole numbers, such as 1,2,3")
    return [int(seed) for seed in text.split(",")]


def _run_all(study: studies.Study, runs: Sequence[Experiment], workers: int) -> list[Experiment]:
    """Run each in a process of its own and return those that failed; one failing stops no other."""

    def run_one(item: tuple[int, Experiment]) -> bool:
        index, run = item
        command = [sys.executable, "-m", "adanorm.run", *studies.command_line(study, run)]
        # Several bars at once would be unreadable: with one worker the run speaks for itself.
        with tempfile.TemporaryFile("w+") as log:
            output = None if workers == 1 else log
            ended = subprocess.run(command, cwd=PROJECT, stdout=output, stderr=output, check=False)
            log.seek(0)
            tail = log.read().strip().splitlines()
        name = f"[{index}/{len(runs)}] {run.task.name} {run.norm.name} seed {run.seed}"
        state = "ended" if ended.returncode == 0 else f"FAILED with {ended.returncode}"
        said = [line for line in tail if ": test " in line] or tail[-3:]
        print("\n  ".join([f"{name}: {state}", *said]), flush=True)
        return ended.returncode == 0

    with ThreadPoolExecutor(workers) as pool:
        succeeded = list(pool.map(run_one, enumerate(runs, 1)))
    return [run for run, good in zip(runs, succeeded, strict=True) if not good]


if __name__ == "__main__":
    compose.door(main)
