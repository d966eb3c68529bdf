"""Run what a study lacks and print its table: `python -m adanorm.study table1 --workers 2`."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from adanorm import compose, launch, studies
from adanorm.config import PROJECT, choices
from adanorm.records import reader
from adanorm.reporting.formats import terminal
from adanorm.reporting.published import published_tasks
from adanorm.reporting.tables import Table
from adanorm.tables import write


def main(given: Sequence[str] | None = None) -> int:
    """Run a study; the code is 1 if some run failed."""
    arguments = _arguments(given)
    name, study = named(arguments)
    grid = studies.grid(study, runs=arguments.runs)
    settings = [entry for entry in arguments.settings if entry.startswith("launcher.")]
    runs = _planned(study, name, grid, [entry for entry in arguments.settings if entry not in settings])
    missing = [run for run in runs if not reader.is_made(run.experiment.folder())]
    counts = f"{name}: {len(runs)} runs, {len(runs) - len(missing)} made before, {len(missing)} to run"
    failed = []
    if not missing:
        print(counts)
    else:
        on_cpu = all(run.experiment.device == "cpu" for run in missing)
        chosen = launch.choose(
            arguments.launcher,
            workers=arguments.workers,
            gpus=arguments.gpus,
            settings=settings,
            on_cpu=on_cpu,
        )
        hours = sum(run.experiment.cost.cpu_hours for run in missing) / chosen.workers
        print(f"{counts} with {chosen.workers} worker(s), about {hours:.1f} hours on CPU", flush=True)
        kept = Path(arguments.runs) if arguments.runs else PROJECT / "outputs"
        stamp = f"{time.strftime('%Y-%m-%d_%H-%M-%S')}-{os.getpid()}"
        failed = launch.make_all(missing, chosen, kept / "studies" / f"{name}-{stamp}")
    table = Table(study, grid)
    write(table, name, Path(arguments.runs) / "tables" if arguments.runs else None)
    print(terminal(table))
    for run in failed:
        print(f"failed: {run.name}", file=sys.stderr)
    return 1 if failed else 0


def named(arguments: argparse.Namespace) -> tuple[str, studies.Study]:
    """Return the study that a command line names, with its scale and seeds, and its table's name."""
    study = studies.load(arguments.study, known_tasks=published_tasks())
    # At another scale than the study's own, the table is another.
    name = Path(arguments.study).stem
    scale = arguments.scale or study.scale
    name = name if scale == study.scale else f"{name}-{scale}"
    return name, study.model_copy(update={"scale": scale, "seeds": arguments.seeds or study.seeds})


def add_study(parser: argparse.ArgumentParser) -> None:
    """Add what names a study, its scale, its seeds and its records."""
    parser.add_argument("study", help=f"one of {', '.join(choices('study'))}, or your own .yaml")
    parser.add_argument("--scale", choices=choices("scale"), help="default: the study's own")
    parser.add_argument("--seeds", type=_seeds, help="such as 1,2,3; default: the study's own")
    parser.add_argument("--runs", type=_folder, help="folder of the records and tables; default: results/")
    parser.add_argument("--workers", type=_positive, help="runs at a time; default: what this machine suits")


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = compose.Parser(prog="adanorm.study", description=__doc__)
    add_study(parser)
    parser.add_argument("--launcher", default="local", help=f"one of {', '.join(choices('launcher'))}")
    parser.add_argument("--gpus", type=_positive, default=1, help="GPUs a run, or processes on CPU")
    parser.add_argument(
        "settings",
        nargs="*",
        metavar="KEY=VALUE",
        help="of every run, such as logger=tensorboard, or of the launcher: launcher.partition=gpu",
    )
    return parser.parse_intermixed_args(given)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be at least 1")
    return int(text)


def _folder(text: str) -> str:
    return str(Path(text).absolute())


def _seeds(text: str) -> list[int]:
    if not all(seed.isdecimal() for seed in text.split(",")):
        raise argparse.ArgumentTypeError(f"{text!r}: write whole numbers, such as 1,2,3")
    return [int(seed) for seed in text.split(",")]


def _planned(
    study: studies.Study, name: str, grid: studies.Grid, settings: list[str]
) -> list[studies.Planned]:
    """Return the study's runs with the user's settings.

    Raises ValueError for a setting that would make a run another run: a study's runs are its YAML's.
    """
    runs = studies.plan(study, grid)
    if not settings:
        return runs
    places = runs[0].experiment.runs
    changed = studies.plan(study, studies.grid(study, runs=places, settings=settings), settings)
    if any(
        run.experiment.folder() != ours.experiment.folder() for run, ours in zip(runs, changed, strict=True)
    ):
        raise ValueError(
            f"{' '.join(settings)}: makes other runs than the study's; write a study of your own"
        )
    for run in changed:
        if run.experiment.logger.name != "files":
            named = {"group": name, "label": run.name}
            # In quotes: a label may hold what Hydra's grammar has a meaning for.
            run.arguments.extend(f"++logger.{key}={json.dumps(text)}" for key, text in named.items())
    return changed


if __name__ == "__main__":
    compose.door(main)
