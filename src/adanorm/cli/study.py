"""Make the missing runs of a study and print its table.

A study is a grid of runs, conf/study/NAME.yaml or a file of your own. Completed runs are skipped.
If a run fails, the others go on, and the exit code is 1.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from adanorm.cli.command import Arguments, Key, Usage, folder_of
from adanorm.cli.study_arguments import STUDY_KEYS, chosen_study, study_names, workers_of
from adanorm.config.errors import whole_number
from adanorm.config.experiment import Experiment
from adanorm.config.overrides import check_fixed
from adanorm.config.titles import counted, in_words
from adanorm.records import loggers, reader
from adanorm.records.folder import path_text
from adanorm.records.lines import unchanging
from adanorm.reporting.tables.formats import table_text, write_table
from adanorm.reporting.tables.table import Table
from adanorm.runs.auto_scale import lacking_data
from adanorm.runs.duration import seconds_left
from adanorm.studies.launch import Launch, choose_launch, load_facts, run_all
from adanorm.studies.study import Planned, Study, StudyGrid, plan_runs, study_grid

USAGE = Usage(
    name="STUDY",
    choices=study_names,
    keys={
        **STUDY_KEYS,
        "launcher": Key("a file of conf/launcher, such as ray or slurm", "local"),
        "gpus": Key("GPUs per run, or processes per run on CPU", "1"),
    },
    settings="of every run, such as logger=tensorboard, or of the launcher: launcher.partition=gpu",
    examples=(
        "table4 workers=2 seeds=1,2,3",
        "my-study.yaml launcher=ray",
        "mini-all scale=smoke runs=runs",
    ),
)


def main(arguments: Arguments) -> int:
    """Run a study; the exit code is 1 if a run failed."""
    name, study, table_name = chosen_study(arguments)
    runs_folder = folder_of(arguments.keys["runs"])
    grid = study_grid(study, runs=runs_folder)
    of_launcher = [entry for entry in arguments.settings if entry.startswith("launcher.")]
    settings = [entry for entry in arguments.settings if entry not in of_launcher]
    workers, gpus = (
        workers_of(arguments),
        whole_number(
            "gpus",
            arguments.keys["gpus"],
            at_most=1024,
        ),
    )
    load_facts(arguments.keys["launcher"])  # refuses an unknown one even if no run is missing
    runs = _planned(study, grid, settings)
    missing = [run for run in runs if not reader.is_complete(run.experiment.folder())]
    _check_norms(missing)
    done = len(runs) - len(missing)
    counts = f"{name}: {counted(len(runs), 'run')}, {done} completed before, {len(missing)} to run"
    failed = []
    if not missing:
        print(counts, flush=True)
    else:
        experiments = [run.experiment for run in missing]
        launch = choose_launch(
            arguments.keys["launcher"],
            workers=workers,
            gpus=gpus,
            settings=of_launcher,
            on_cpu=all(run.device == "cpu" for run in experiments),
            threads=max(run.threads for run in experiments),
        )
        print(
            counts,
            _duration(experiments, launch),
            sep="\n",
            flush=True,
        )
        if arguments.keys["launcher"] == "local":
            if not launch.on_gpus:
                _check_that_a_cpu_will_do(experiments)
            failed = _without_data(missing)
            missing = [run for run in missing if run not in failed]
        failed += run_all(missing, launch, name, runs_folder)
    table = Table(study, grid)
    if not table.begun:  # an empty table would stand for a result
        print(f"failed: no run of {name} has ended, so no table is written", file=sys.stderr)
        return 1
    paths = write_table(
        table,
        table_name,
        Path(runs_folder) / "tables" if runs_folder else None,
    )
    print(table_text(table))
    print(f"{path_text(paths[0])} and .csv", flush=True)
    for run in failed:
        print(f"failed: {run.name}", file=sys.stderr)
    return 1 if failed else 0


def _without_data(missing: Sequence[Planned]) -> list[Planned]:
    """Return the runs whose data cannot be had here, and print why, once for each task.

    Raises ValueError if these are all that are missing.
    """
    lacks = {}
    without = []
    for run in missing:
        task = run.experiment.task.name
        if task not in lacks:
            lacks[task] = lacking_data(run.experiment)
        if lacks[task]:
            without.append(run)
    reasons = [f"{task}: {lack}" for task, lack in lacks.items() if lack]
    if len(without) == len(missing):
        raise ValueError(f"{'; '.join(reasons)}; name a mirror with ADANORM_MIRROR or data.mirror")
    for reason in reasons:
        print(f"left out: {reason}", file=sys.stderr)
    return without


def _check_that_a_cpu_will_do(runs: Sequence[Experiment]) -> None:
    """Raise ValueError for runs that need a GPU, unless the user insists with device=cpu."""
    waits = [run for run in runs if run.cost.needs_gpu and run.device != "cpu"]
    if waits:
        first = waits[0]
        span = in_words(first.cost.cpu_hours)
        raise ValueError(
            f"{first.task.name} at scale {first.scale}: a run takes about {span} of a CPU core,"
            f" {in_words(first.gpu_hours)} on a GPU; take another scale, or insist with device=cpu"
        )


def _check_norms(missing: Sequence[Planned]) -> None:
    """Raise ValueError if a run's norm cannot be made, because of its class or its parameters."""
    for run in missing:
        from adanorm.norms import norm_factory  # imports torch, only if a run is missing

        try:
            norm_factory(run.experiment.norm.choice)
        except ValueError as error:
            raise ValueError(f"row {run.row!r}: {error}") from None


def _duration(runs: Sequence[Experiment], launch: Launch) -> str:
    """Return in words how long runs take on the launch's devices, as `adanorm status` estimates."""
    workers = counted(launch.workers, "worker")
    if launch.on_gpus:
        hours = sum(run.gpu_hours for run in runs) / launch.gpus
        at_once = min(launch.workers, len(launch.devices) // launch.gpus or launch.workers)
        return f"{workers}, about {in_words(hours / at_once)} on GPUs"
    hours = 0.0
    with unchanging():
        for run in runs:
            seconds = seconds_left(run, "missing")
            # Its estimate is for a GPU.
            hours += run.cost.cpu_hours if run.cost.needs_gpu else seconds / 3600
    threads = counted(runs[0].threads, "thread")
    return f"{workers} of {threads} each, about {in_words(hours / launch.workers)} on CPU"


def _planned(study: Study, grid: StudyGrid, settings: list[str]) -> list[Planned]:
    """Return the study's runs with the user's settings.

    ValueError if these make a run another run.
    """
    runs = plan_runs(grid)
    if not settings:
        return runs
    check_fixed(settings)
    changed = plan_runs(
        study_grid(
            study,
            runs=runs[0].experiment.runs,
            settings=settings,
        ),
        settings,
    )
    for run, unchanged in zip(
        changed,
        runs,
        strict=True,
    ):
        if run.experiment.folder() != unchanged.experiment.folder():
            raise ValueError(
                f"{' '.join(settings)}: changes the study's runs; write a study of your own"
            )
        loggers.check(run.experiment.logger)
    return changed
