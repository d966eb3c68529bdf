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
from statistics import fmean
from typing import Any, NoReturn, get_args
from unittest.mock import patch

import yaml

from adanorm.cli.command import WIDTH, Key, Usage, hanging, help_text, no_early_end
from adanorm.config.compose import compose_experiment, compose_values, parse_experiment
from adanorm.config.errors import whole_number
from adanorm.config.experiment import Experiment
from adanorm.config.overrides import (
    check_each_once,
    differences,
    parse_override,
    prepare_overrides,
    swept,
)
from adanorm.config.paths import CONF, choices
from adanorm.config.placements import POSITIONS, Heads
from adanorm.config.titles import METRICS, mean_text
from adanorm.process import is_first_process, torchrun
from adanorm.records import reader
from adanorm.records.environment import check_devices
from adanorm.records.folder import HELD_CODE, OF_A_STUDY, HeldError, location, path_text
from adanorm.records.published import departures_from_paper, papers_sources, published
from adanorm.records.result import Result, outcome

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
HEADS = " or ".join(get_args(Heads))
SITE_SETTINGS = {
    "model.norm_position": f"{', '.join(POSITIONS)}; null: the task's own (sandwich is Peri-LN)",
    "model.qk_norm": f"{HEADS}: normalize queries and keys over these; null: do not",
    "norm.placement": "all, final, or a list of globs: the sites with this norm; "
    "others have LayerNorm",
}


def main(arguments: Sequence[str]) -> None:
    """Run the command line; Hydra's own flags (-m, --cfg, --help) work as they do elsewhere."""
    if "-h" in arguments or "--help" in arguments:
        print(_help([argument for argument in arguments if "=" in argument]))
        return
    check_each_once(arguments)
    gpus = [argument for argument in arguments if argument.startswith("gpus=")]
    processes = (
        whole_number(
            "gpus",
            gpus[0].removeprefix("gpus="),
            at_most=1024,
        )
        if gpus
        else 1
    )
    arguments = prepare_overrides([argument for argument in arguments if argument not in gpus])
    if processes > 1 and "device=cpu" not in arguments:
        check_devices(processes)
    if "scale=auto" in arguments:
        from adanorm.runs.auto_scale import resolve_auto

        arguments = resolve_auto(arguments)
    flags = {argument for argument in arguments if argument.startswith("-")}
    overrides = [argument for argument in arguments if argument not in flags]
    is_sweep = flags and flags <= {"-m", "--multirun"}  # Hydra refuses a sweep beside another flag
    sweep = _sweep(overrides) if is_sweep else {}
    single = None if flags else compose_experiment(overrides)
    if single and _show_if_completed(single):
        return
    if processes > 1:
        os.execv(sys.executable, [*torchrun(processes), "-m", "adanorm", "run", *arguments])
    if single:
        _run(single)
        return
    _run_by_hydra(arguments, sweep)
    if sweep and is_first_process():
        _show_sweep(sweep)


def _show_sweep(sweep: Mapping[str, Experiment]) -> None:
    """Print a line per run of a sweep: what sets it apart, and its outcome."""
    width = max(map(len, sweep))
    print()
    for words, run in sweep.items():
        result = reader.result(run.folder())
        text = outcome(run.task, result) if result else "not completed"
        print(f"{words:<{width}}  {text}")


def _run_by_hydra(arguments: Sequence[str], sweep: Mapping[str, Experiment]) -> None:
    """Run a command line with Hydra's flags.

    Print before each run of a sweep what sets it apart.
    """
    import hydra
    from omegaconf import DictConfig, OmegaConf

    for argument in arguments:
        if _is_override(argument):
            parse_override(argument)
    apart = {experiment.folder(): words for words, experiment in sweep.items()}

    @hydra.main(
        config_path=str(CONF),
        config_name="run",
        version_base="1.3",
    )
    def job(config: DictConfig) -> None:
        values: Any = OmegaConf.to_container(config, resolve=True)
        experiment = parse_experiment(values)
        words = apart.get(experiment.folder())
        if words and is_first_process():
            print(f"\n{words}", flush=True)
        if not _show_if_completed(experiment):
            _run(experiment)

    def refuse(parser: argparse.ArgumentParser, message: str) -> NoReturn:
        raise ValueError(f"{message}; `adanorm run --help` shows what it takes")

    # Flags first: argparse refuses overrides that stand on both sides of one.
    sys.argv = ["adanorm run", *sorted(arguments, key=_is_override)]
    # argparse would print Hydra's usage.
    with patch.object(argparse.ArgumentParser, "error", refuse):
        job()


def _is_override(argument: str) -> bool:
    return argument.startswith("~") or ("=" in argument and not argument.startswith("-"))


def _sweep(overrides: Sequence[str]) -> dict[str, Experiment]:
    """Return a sweep's runs by what sets each apart.

    Raises ValueError, before any run, if two are the same.
    """
    from adanorm.norms import norm_factory

    jobs = [*itertools.product(*map(swept, overrides))]
    runs = [compose_experiment(job) for job in jobs]
    folders = [run.folder() for run in runs]
    for job, run in zip(
        jobs,
        runs,
        strict=True,
    ):
        norm_factory(run.norm.choice)
        if folders.count(run.folder()) > 1:
            raise ValueError(f"{' '.join(job)}: a run that the sweep has twice")
    return dict(
        zip(
            differences(jobs),
            runs,
            strict=True,
        )
    )


def _help(overrides: Sequence[str]) -> str:
    """Return the help of the command, with every key and its value under the overrides."""
    lines = [
        help_text(
            "run",
            USAGE,
            __doc__ or "",
        ),
        "",
        "Choices",
    ]
    for group in GROUPS:
        names = choices(group)
        if group == "scale":
            names.append("auto")
        lines += hanging(f"  {group:<7} ", ", ".join(names))
    lines += ["", "Where norms sit (docs/placements.md)"]
    for key, about in SITE_SETTINGS.items():
        lines += hanging(f"  {key:<19} ", about)
    values = yaml.safe_dump(
        compose_values(overrides),
        sort_keys=False,
        width=WIDTH,
    )
    return "\n".join([*lines, "", "Keys and values", "", values])


def _show_if_completed(experiment: Experiment) -> bool:
    """Return whether a run is completed; if it is, print its record and its summary."""
    folder = experiment.folder()
    if not reader.is_complete(folder):
        return False
    if is_first_process():
        print(f"already completed: {location(folder)}")
        print("  (another runs=FOLDER repeats it in that folder)")
        print(run_summary(experiment), flush=True)
    return True


def run_summary(experiment: Experiment) -> str:
    """Return a run's outcome, its series' mean score on record, and the paper's number, in lines.

    For a dry run, return its updates, memory and seconds. Raises ValueError for a record that is
    not counted.
    """
    folder = experiment.folder()
    result = reader.result(folder, dry_run=experiment.updates is not None)
    if result is None:
        raise ValueError(f"{location(folder)}: the run has ended, but its record is not counted")
    task = experiment.task
    name = f"{task.name} {experiment.norm.name} {experiment.scale}"
    if result.dry_run is not None:
        memory = result.dry_run["peak_memory"] / 1e9
        text = f"{result.parameters:,} parameters, peak memory {memory:.1f} GB"
        text = f"{name}: dry run of {result.steps} updates, {text}, {result.seconds:.0f} s"
        return f"{text}; no table reads it\nrecord: {path_text(folder)}"
    lines = [f"{name} seed {experiment.seed}: {outcome(task, result)}"]
    lines += _mean_on_record(experiment)
    number = None
    if not experiment.own_data:
        number = published(task.name, experiment.norm.name)
        if experiment.data.source not in papers_sources(task.name):
            lines.append(f"data: {experiment.data.source}, not the paper's")
    if number is not None:
        departures = departures_from_paper(experiment)
        if departures:
            lines.append(f"not compared with the paper's number: {departures}")
        else:
            lines.append(f"the paper has {number.text}")
    return "\n".join([*lines, f"record: {location(folder)}"])


def _mean_on_record(experiment: Experiment) -> list[str]:
    """Return the mean test score of a run's series, and how many runs diverged, in lines.

    There is none if a single seed is on record and has a score.
    """
    metric = experiment.task.metric
    seeds, scores = [], []
    for sibling in reader.siblings(reader.record(experiment.folder())):
        result = sibling.ended
        if not isinstance(result, Result) or not result.is_complete:
            continue
        seeds.append(str(result.seed))
        if result.status == "done":
            scores.append(result.test_score(metric))
    if len(scores) == len(seeds) < 2:
        return []
    parts = []
    if scores:
        digits = METRICS[metric].decimals(fmean(scores))
        parts.append(f"{mean_text(scores, digits)} (test {metric})")
    if len(scores) < len(seeds):
        parts.append(f"Diverge ({len(seeds) - len(scores)}/{len(seeds)})")
    text = f"over seeds {', '.join(seeds)}: {', '.join(parts)}"
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ")


def _run(experiment: Experiment) -> None:
    """Make a run in this process, and print its summary."""
    if is_first_process():
        _announce(experiment)
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


def _announce(experiment: Experiment) -> None:
    """Print what is about to run and, before days of work, what it needs."""
    if OF_A_STUDY not in os.environ:  # a study has said what it runs
        name = f"{experiment.task.name} {experiment.norm.name} {experiment.scale}"
        print(f"{name} seed {experiment.seed}: loading PyTorch and the data", flush=True)
    if experiment.updates is None and experiment.cost.needs_gpu:
        from adanorm.runs.plan import needs

        for line in needs(experiment):
            print(
                textwrap.fill(
                    line,
                    WIDTH,
                    subsequent_indent=" " * 13,
                ),
                flush=True,
            )
