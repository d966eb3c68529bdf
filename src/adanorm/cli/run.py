"""Train one task with one norm and score it; a completed run is skipped.

Hydra composes the configuration. Its flags work, such as -m (a sweep), --cfg job (print the
configuration) and --hydra-help.
"""

import argparse
import itertools
import os
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, get_args
from unittest.mock import patch

import yaml

from adanorm.cli.command import WIDTH, Key, Usage, hanging, help_text, no_early_end, whole_number
from adanorm.config.compose import (
    compose_experiment,
    compose_values,
    papers_sources,
    parse_experiment,
)
from adanorm.config.experiment import Experiment
from adanorm.config.overrides import check_each_once, differences, parse_override, prepare_overrides
from adanorm.config.paths import CONF, choices
from adanorm.config.placements import POSITIONS, Heads
from adanorm.process import is_first_process, torchrun
from adanorm.records import reader
from adanorm.records.folder import HELD_CODE, OF_A_STUDY, HeldError, location, path_text
from adanorm.records.published import published
from adanorm.records.result import outcome
from adanorm.runs.devices import check_devices
from adanorm.runs.duration import needs_gpu

USAGE = Usage(
    keys={"gpus": Key("processes of torchrun: each has one GPU, or one core with device=cpu", "1")},
    settings="of a run",
    examples=(
        "task=mnist norm=adanorm scale=mini",
        "task=rt norm=adanorm norm.params.k=0.2 seed=3",
        "-m task=rt,sst5 norm=layernorm,adanorm seed=1,2,3",
        "task=en-de norm=adanorm gpus=8",
        "task=rt --cfg job          # show the whole configuration",
    ),
)
GROUPS = ("task", "norm", "scale", "preset", "logger")
SITE_SETTINGS = {
    "model.norm_position": f"{', '.join(POSITIONS)}; null: the task's own (sandwich is Peri-LN)",
    "model.qk_norm": f"{' or '.join(get_args(Heads))}: normalize queries and keys over these; null: do not",
    "norm.placement": "all, final, or a list of globs: the sites with this norm; others have LayerNorm",
}


def main(arguments: Sequence[str]) -> None:
    """Run the command line; Hydra's own flags (-m, --cfg, --help) work as they do elsewhere."""
    if {"-h", "--help"} & {*arguments}:
        print(_help([argument for argument in arguments if "=" in argument]))
        return
    check_each_once(arguments)
    gpus = [argument for argument in arguments if argument.startswith("gpus=")]
    processes = whole_number("gpus", gpus[0].removeprefix("gpus="), at_most=1024) if gpus else 1
    arguments = prepare_overrides([argument for argument in arguments if argument not in gpus])
    if processes > 1 and "device=cpu" not in arguments:
        check_devices(processes)
    if "scale=auto" in arguments:
        from adanorm.runs.auto_scale import resolve_auto

        arguments = resolve_auto(arguments)
    overrides = [argument for argument in arguments if not argument.startswith("-")]
    sweep = _sweep(overrides) if {"-m", "--multirun"} & {*arguments} else {}
    single = compose_experiment(overrides) if overrides == [*arguments] else None
    if single and _show_if_completed(single):
        return
    if processes > 1:
        os.execv(sys.executable, [*torchrun(processes), "-m", "adanorm", "run", *arguments])
    if single:
        _run(single)
        return
    _run_by_hydra(arguments, sweep)
    if sweep and is_first_process():
        width = max(map(len, sweep))
        print()
        for words, run in sweep.items():
            result = reader.result(run.folder())
            print(f"{words:<{width}}  {outcome(run.task, result) if result else 'not completed'}")


def _run_by_hydra(arguments: Sequence[str], sweep: Mapping[str, Experiment]) -> None:
    """Run a command line with Hydra's flags; print before each run of a sweep what sets it apart."""
    import hydra
    from omegaconf import DictConfig, OmegaConf

    apart = {experiment.folder(): words for words, experiment in sweep.items()}

    @hydra.main(config_path=str(CONF), config_name="run", version_base="1.3")
    def job(config: DictConfig) -> None:
        values: Any = OmegaConf.to_container(config, resolve=True)
        experiment = parse_experiment(values)
        if is_first_process() and (words := apart.get(experiment.folder())):
            print(f"\n{words}", flush=True)
        if not _show_if_completed(experiment):
            _run(experiment)

    def refuse(parser: argparse.ArgumentParser, message: str) -> NoReturn:
        raise ValueError(f"{message}; `adanorm run --help` shows what it takes")

    sys.argv = ["adanorm run", *arguments]
    with patch.object(
        argparse.ArgumentParser, "error", refuse
    ):  # argparse would print Hydra's usage
        job()


def _sweep(overrides: Sequence[str]) -> dict[str, Experiment]:
    """Return a sweep's runs by what sets each apart; ValueError, before any run, if two are the same."""
    from adanorm.norms import norm_factory

    jobs = [*itertools.product(*map(_swept, overrides))]
    runs = [compose_experiment(job) for job in jobs]
    folders = [run.folder() for run in runs]
    for job, run in zip(jobs, runs, strict=True):
        norm_factory(run.norm.choice)
        if folders.count(run.folder()) > 1:
            raise ValueError(f"{' '.join(job)}: a run that the sweep has twice")
    return dict(zip(differences(jobs), runs, strict=True))


def _swept(override: str) -> list[str]:
    """Return the overrides, one per value, that a sweep makes of one override."""
    sweep = parse_override(override)
    if not sweep.is_sweep_override():
        return [override]
    return [f"{sweep.get_key_element()}={value}" for value in sweep.sweep_string_iterator()]


def _help(overrides: Sequence[str]) -> str:
    lines = [help_text("run", USAGE, __doc__ or ""), "", "Choices"]
    for group in GROUPS:
        names = [*choices(group), *(["auto"] if group == "scale" else [])]
        lines += hanging(f"  {group:<7} ", ", ".join(names))
    lines += ["", "Where norms sit (docs/placements.md)"]
    for key, about in SITE_SETTINGS.items():
        lines += hanging(f"  {key:<19} ", about)
    values = yaml.safe_dump(compose_values(overrides), sort_keys=False, width=WIDTH)
    return "\n".join([*lines, "", "Keys and values", "", values])


def _show_if_completed(experiment: Experiment) -> bool:
    """Return whether a run is completed; if it is, print its record and its summary."""
    folder = experiment.folder()
    if not reader.is_complete(folder):
        return False
    if is_first_process():
        print(
            f"already completed: {location(folder)}\n  (another runs=FOLDER repeats it in that folder)"
        )
        print(run_summary(experiment), flush=True)
    return True


def run_summary(experiment: Experiment) -> str:
    """Return a run's outcome, the mean over its series' seeds on record, and the paper's number, in lines.

    For a dry run, return its updates, memory and seconds. Raises ValueError for a record that is
    not counted.
    """
    from adanorm.verdicts.cell import cell, departures_from_paper, evidence  # imports numpy

    name = f"{experiment.task.name} {experiment.norm.name} {experiment.scale}"
    result = reader.result(experiment.folder(), dry_run=experiment.updates is not None)
    if result is None:
        raise ValueError(
            f"{location(experiment.folder())}: the run has ended, but its record is not counted"
        )
    if result.dry_run is not None:
        return (
            f"{name}: dry run of {result.steps} updates, {result.parameters:,} parameters, peak memory"
            f" {result.dry_run['peak_memory'] / 1e9:.1f} GB, {result.seconds:.0f} s; no table reads it"
            f"\nrecord: {path_text(experiment.folder())}"
        )
    runs = [
        run for run in reader.runs_on_record(experiment) if reader.result(run.folder()) is not None
    ]
    seeds, summary = ", ".join(str(run.seed) for run in runs), cell(runs)
    lines = [f"{name} seed {experiment.seed}: {outcome(experiment.task, result)}"]
    mean = f"over seeds {seeds}: {summary.text} (test {summary.metric})"
    lines += textwrap.wrap(mean, WIDTH, subsequent_indent="  ")
    if not experiment.own_data and experiment.data.source not in papers_sources(
        experiment.task.name
    ):
        lines.append(f"data: {experiment.data.source}, not the paper's")
    if summary.paper is not None:
        records = evidence(experiment.task.name, experiment.scale, runs=experiment.runs)
        lines.append(
            f"the paper has {summary.paper.text}: {summary.verdict(records.variance.within)}"
        )
    elif not experiment.own_data and published(experiment.task.name, experiment.norm.name):
        lines.append(f"not compared with the paper's number: {departures_from_paper(experiment)}")
    return "\n".join([*lines, f"record: {location(experiment.folder())}"])


def _run(experiment: Experiment) -> None:
    if is_first_process():
        name = f"{experiment.task.name} {experiment.norm.name} {experiment.scale} seed {experiment.seed}"
        if OF_A_STUDY not in os.environ:  # a study has said what it runs
            print(f"{name}: loading PyTorch and the data", flush=True)
        if experiment.updates is None and needs_gpu(
            experiment
        ):  # before days of work, print what they need
            from adanorm.runs.plan import plan

            for line in plan(experiment, None):
                print(textwrap.fill(line, WIDTH, subsequent_indent=" " * 13), flush=True)
    from adanorm.runs.execute import execute

    try:
        with no_early_end():
            execute(experiment)
    except HeldError:
        if OF_A_STUDY not in os.environ:
            raise
        raise SystemExit(HELD_CODE) from None  # no mistake: the study waits for the other process
    if is_first_process():
        print(run_summary(experiment), flush=True)
