"""Run what a study lacks and print its table.

A study is a grid of runs, conf/study/NAME.yaml or a file of your own. Completed runs are skipped;
a run that fails stops no other, and the exit code is then 1.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from adanorm.cli.command import Arguments, Key, Usage, whole_number
from adanorm.cli.study_arguments import STUDY_KEYS, chosen_study, runs_of, study_names, workers_of
from adanorm.config.overrides import check_fixed
from adanorm.config.paths import PROJECT
from adanorm.records import loggers, reader
from adanorm.reporting.tables.files import write_table
from adanorm.reporting.tables.formats import table_text
from adanorm.reporting.tables.table import Table
from adanorm.studies.grid import Planned, StudyGrid, plan_runs, study_grid
from adanorm.studies.launch import run_all
from adanorm.studies.launchers import choose_launch
from adanorm.studies.study import Study

USAGE = Usage(
    name="STUDY",
    choices=study_names,
    fewest=1,
    most=1,
    keys={
        **STUDY_KEYS,
        "launcher": Key("a file of conf/launcher, such as ray or slurm", "local"),
        "gpus": Key("GPUs a run, or processes a run on CPU", "1"),
    },
    settings="of every run, such as logger=tensorboard, or of the launcher: launcher.partition=gpu",
    examples=("table4 workers=2 seeds=1,2,3", "my-study.yaml launcher=ray", "mini-all scale=smoke runs=runs"),
)


def main(arguments: Arguments) -> int:
    """Run a study; the code is 1 if some run failed."""
    name, study, table_name = chosen_study(arguments)
    runs_folder, workers = runs_of(arguments), workers_of(arguments)
    gpus = whole_number("gpus", arguments.keys["gpus"], at_most=1024)
    grid = study_grid(study, runs=runs_folder)
    settings = [entry for entry in arguments.settings if entry.startswith("launcher.")]
    runs = _planned(study, name, grid, [entry for entry in arguments.settings if entry not in settings])
    missing = [run for run in runs if not reader.is_complete(run.experiment.folder())]
    counts = f"{name}: {len(runs)} runs, {len(runs) - len(missing)} completed before, {len(missing)} to run"
    failed = []
    if not missing:
        print(counts)
    else:
        on_cpu = all(run.experiment.device == "cpu" for run in missing)
        launcher = arguments.keys["launcher"]
        chosen = choose_launch(launcher, workers=workers, gpus=gpus, settings=settings, on_cpu=on_cpu)
        costs = [run.experiment.cost for run in missing]
        place = "GPU" if chosen.devices else "CPU"
        hours = sum(cost.cuda_hours if chosen.devices else cost.cpu_hours for cost in costs) / chosen.workers
        print(counts)
        print(f"{chosen.workers} worker(s), about {hours:,.1f} hours on {place}", flush=True)
        kept = Path(runs_folder) if runs_folder else PROJECT / "outputs"
        stamp = f"{time.strftime('%Y-%m-%d_%H-%M-%S')}-{os.getpid()}"
        failed = run_all(missing, chosen, kept / "studies" / f"{name}-{stamp}")
    table = Table(study, grid)
    write_table(table, table_name, Path(runs_folder) / "tables" if runs_folder else None)
    print(table_text(table))
    for run in failed:
        print(f"failed: {run.name}", file=sys.stderr)
    return 1 if failed else 0


def _planned(study: Study, name: str, grid: StudyGrid, settings: list[str]) -> list[Planned]:
    """Return the study's runs with the user's settings.

    Raises ValueError for a setting that would make a run another run: a study's runs are its YAML's.
    """
    runs = plan_runs(grid)
    if not settings:
        return runs
    check_fixed(settings)
    places = runs[0].experiment.runs
    changed = plan_runs(study_grid(study, runs=places, settings=settings), settings)
    if any(
        run.experiment.folder() != ours.experiment.folder() for run, ours in zip(runs, changed, strict=True)
    ):
        raise ValueError(
            f"{' '.join(settings)}: makes other runs than the study's; write a study of your own"
        )
    for run in changed:
        loggers.check(run.experiment)
        if run.experiment.logger.name != "files":
            named = {"group": name, "label": run.name}
            # In quotes: a label may hold what Hydra's grammar has a meaning for.
            run.arguments.extend(f"++logger.{key}={json.dumps(text)}" for key, text in named.items())
    return changed
