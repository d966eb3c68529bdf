"""Print what a run, or a study, would need: downloads, preparation, disk, memory and hours.

Files, preparation, devices and the hours that the configuration expects come first. Then it times
one batch of the whole model on this machine's device, with synthetic data of the same shape;
probe=false leaves that out, with disk and memory. It counts the updates per epoch in the run's own
data, if they are here. Of a study nothing is timed.
"""

from adanorm.cli.command import (
    Arguments,
    Key,
    Usage,
    folder_of,
    parse_arguments,
    show,
    true_or_false,
)
from adanorm.cli.study_arguments import STUDY_KEYS, chosen_study, workers_of
from adanorm.config.compose import compose_experiment
from adanorm.config.errors import whole_number
from adanorm.records import reader
from adanorm.studies.study import plan_runs, study_grid

# The width of a line's heading: its further lines stand below its text.
INDENT = 13
USAGE = Usage(
    keys={
        "study": Key(
            "a study, with task=, scale=, seeds= as in `adanorm study`, in place of a run"
        ),
        "gpus": Key("GPUs of the run", "1"),
        "probe": Key("false: do not time anything", "true"),
    },
    settings="of a run",
    examples=(
        "task=en-de norm=adanorm",
        "task=en-de norm=adanorm precision=bf16 probe=false",
        "study=table4 task=de-en,en-vi workers=2",
    ),
)


def main(arguments: Arguments) -> None:
    """Print the plan of the run, or of the study, that the command line names."""
    gpus = whole_number("gpus", arguments.keys["gpus"], at_most=1024)
    if arguments.keys["study"]:
        if gpus > 1:
            raise ValueError("gpus= is for one run; workers=2 plans a study on two GPUs")
        return _print_study(arguments)
    is_timed = true_or_false("probe", arguments.keys["probe"])
    settings = [setting for setting in arguments.settings if setting != "scale=auto"]
    experiment = compose_experiment(settings)
    from adanorm.runs.plan import costs, measure, needs, ticking

    name = (
        f"{experiment.task.name} {experiment.norm.name} {experiment.scale}, seed {experiment.seed}"
    )
    print(f"{name}: {experiment.folder().name}", flush=True)
    for line in needs(experiment, gpus):
        show(line, INDENT)
    if is_timed:
        with ticking("timing       one batch through the whole model; probe=false leaves this out"):
            probe = measure(compose_experiment([*settings, "updates=1"]))
        for line in costs(experiment, probe):
            show(line, INDENT)
    return None


def _print_study(arguments: Arguments) -> None:
    """Print the plan of a study. Raises ValueError for a setting that a study does not take."""
    words = [arguments.keys["study"], *arguments.settings]
    chosen = parse_arguments("plan", Usage(name="STUDY", keys=STUDY_KEYS), words)
    workers = workers_of(chosen) or 1
    name, study, _ = chosen_study(chosen)
    grid = study_grid(study, runs=folder_of(chosen.keys["runs"]))
    runs = [run.experiment for run in plan_runs(grid)]
    missing = [run for run in runs if not reader.is_complete(run.folder())]
    from adanorm.runs.plan import study_needs

    print(f"study {name}", flush=True)
    for line in study_needs(runs, missing, workers):
        show(line, INDENT)
