"""Make the missing runs of a study and print its table.

A study is a grid of runs, conf/study/NAME.yaml or a file of your own. Completed runs are skipped.
If a run fails, the others go on, and the exit code is 1.

With until=decided the study then adds seeds until every comparison of a claim is decided or its
plan ends. Each time it takes the comparison that is likely to be decided in the fewest core-hours,
and runs its seeds up to its next look. The plan for the task and scale in conf/claims/paper.yaml
says which seeds are read, and after how many.
"""

import sys
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path

from adanorm.cli.command import Arguments, Key, Usage, folder_of, whole_number
from adanorm.cli.study_arguments import STUDY_KEYS, chosen_study, study_names, workers_of
from adanorm.config.experiment import Experiment
from adanorm.config.overrides import check_fixed
from adanorm.config.titles import counted, in_words
from adanorm.launch import until
from adanorm.launch.launch import Launch, choose_launch, load_facts, run_all
from adanorm.records import loggers, reader
from adanorm.records.folder import path_text
from adanorm.reporting.tables.formats import table_text, write_table
from adanorm.reporting.tables.table import Table
from adanorm.runs.duration import seconds_left, seconds_per_unit
from adanorm.studies.study import Planned, Study, StudyGrid, plan_runs, study_grid
from adanorm.verdicts.preregistration import preregistration

USAGE = Usage(
    name="STUDY",
    choices=study_names,
    keys={
        **STUDY_KEYS,
        "launcher": Key("a file of conf/launcher, such as ray or slurm", "local"),
        "gpus": Key("GPUs per run, or processes per run on CPU", "1"),
        "until": Key("decided: add seeds until every comparison of a claim is decided"),
        "most": Key("with until=decided: the most seeds of a comparison (default: the plan's)"),
    },
    settings="of every run, such as logger=tensorboard, or of the launcher: launcher.partition=gpu",
    examples=(
        "table4 workers=2 seeds=1,2,3",
        "my-study.yaml launcher=ray",
        "mini-all scale=smoke runs=runs",
        "overview until=decided most=40",
    ),
)


def main(arguments: Arguments) -> int:
    """Run a study; the exit code is 1 if a run failed."""
    most = most_seeds(arguments)
    name, study, table_name = chosen_study(arguments)
    runs_folder = folder_of(arguments.keys["runs"])
    grid = study_grid(study, runs=runs_folder)
    comparisons = claimed(study, grid, runs_folder) if most else []
    of_launcher = [entry for entry in arguments.settings if entry.startswith("launcher.")]
    settings = [entry for entry in arguments.settings if entry not in of_launcher]
    workers, gpus = (
        workers_of(arguments),
        whole_number("gpus", arguments.keys["gpus"], at_most=1024),
    )
    load_facts(arguments.keys["launcher"])  # refuses an unknown one even if no run is missing
    runs = _planned(study, grid, settings)
    missing = [run for run in runs if not reader.is_complete(run.experiment.folder())]
    _check_norms(missing)
    done = len(runs) - len(missing)
    counts = f"{name}: {counted(len(runs), 'run')}, {done} completed before, {len(missing)} to run"
    failed: list[Planned] = []
    if not missing and not most:
        print(counts, flush=True)
    else:
        experiments = [run.experiment for run in missing or runs]
        launch = choose_launch(
            arguments.keys["launcher"],
            workers=workers,
            gpus=gpus,
            settings=of_launcher,
            on_cpu=all(run.device == "cpu" for run in experiments),
            threads=max(run.threads for run in experiments),
        )
        print(counts, flush=True)
        if missing:
            print(_duration([run.experiment for run in missing], launch), flush=True)
            failed = run_all(missing, launch, name, runs_folder)
        if most and not failed:
            planned = partial(
                until.as_it_comes, scale=study.scale, runs=runs_folder, settings=settings
            )
            scales = dict.fromkeys(study.columns, study.scale)
            failed, _ = until.run_until_decided(
                comparisons,
                lambda next_runs: run_all([*map(planned, next_runs)], launch, name, runs_folder),
                partial(until.on_record, scales=scales, runs=runs_folder),
                most=most,
                at_once=launch.workers,
            )
    table = Table(study, grid)
    paths = write_table(table, table_name, Path(runs_folder) / "tables" if runs_folder else None)
    print(table_text(table))
    print(f"{path_text(paths[0])} and .csv", flush=True)
    for run in failed:
        print(f"failed: {run.name}", file=sys.stderr)
    return 1 if failed else 0


def most_seeds(arguments: Arguments) -> int | None:
    """Return the most seeds of a comparison, None without `until=decided`; ValueError if not planned."""
    aim, most, seeds = (arguments.keys[key] for key in ("until", "most", "seeds"))
    plan = preregistration().stopping
    if not aim and most:
        raise ValueError(f"most={most}: only with until=decided")
    if aim not in ("", "decided"):
        raise ValueError(f"until={aim}: must be decided")
    if aim and seeds:
        raise ValueError(
            f"seeds={seeds}: until=decided chooses the seeds; leave out one of the two"
        )
    count = whole_number("most", most or str(plan.most))
    if not plan.planned < count <= plan.most:
        looks = f"{plan.planned + 1} to {plan.most}, as conf/claims/paper.yaml plans its looks"
        raise ValueError(f"most={count}: must be one of {looks}")
    return count if aim else None


def claimed(study: Study, grid: StudyGrid, runs: str | None) -> list[until.Followed]:
    """Return the comparisons of claims between cells of a study that run a norm with its usual settings."""
    cells = []
    for (row, task), plan in grid.items():
        run = until.Run(task, study.rows[row].norm, study.seeds[0])
        if len(plan.candidates) == 1:
            own = until.as_it_comes(run, study.scale, runs).experiment
            cells += [(task, run.norm)] if own.folder() == plan.runs[0].folder() else []
    if not (comparisons := until.followed(cells, study.scale)):
        raise ValueError(
            "until=decided: no claim compares two of the study's rows in their usual settings"
        )
    return comparisons


def _check_norms(missing: Sequence[Planned]) -> None:
    """Raise ValueError if a run's norm cannot be made, because of its class or its parameters."""
    for run in missing:
        from adanorm.norms import norm_factory  # imports torch, only if a run is missing

        try:
            norm_factory(run.experiment.norm.choice)
        except ValueError as error:
            raise ValueError(f"row {run.row!r}: {error}") from None


def _duration(runs: Sequence[Experiment], launch: Launch) -> str:
    """Return in words how long runs take on the launch's devices, by the estimate of `adanorm status`."""
    workers = counted(launch.workers, "worker")
    if launch.on_gpus:
        hours = sum(run.cost.cuda_hours for run in runs) / launch.gpus
        at_once = min(launch.workers, len(launch.devices) // launch.gpus or launch.workers)
        return f"{workers}, about {in_words(hours / at_once)} on GPUs"
    unit_seconds = cache(seconds_per_unit)
    hours = sum(seconds_left(run, "missing", unit_seconds) for run in runs) / 3600
    threads = counted(runs[0].threads, "thread")
    return f"{workers} of {threads} each, about {in_words(hours / launch.workers)} on CPU"


def _planned(study: Study, grid: StudyGrid, settings: list[str]) -> list[Planned]:
    """Return the study's runs with the user's settings; ValueError if these make a run another run."""
    runs = plan_runs(grid)
    if not settings:
        return runs
    check_fixed(settings)
    changed = plan_runs(
        study_grid(study, runs=runs[0].experiment.runs, settings=settings), settings
    )
    for run, unchanged in zip(changed, runs, strict=True):
        if run.experiment.folder() != unchanged.experiment.folder():
            raise ValueError(
                f"{' '.join(settings)}: changes the study's runs; write a study of your own"
            )
        loggers.check(run.experiment.logger)
    return changed
