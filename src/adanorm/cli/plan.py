"""Print what a run would need: downloads, preparation, disk, memory and hours.

Files, preparation and devices come first. Then it times one batch of the whole model on this
machine's device, with synthetic data of the same shape; probe=false leaves that out, with disk,
memory and hours. It counts the updates per epoch in the run's own data, if they are here.
"""

import textwrap

from adanorm.cli.command import WIDTH, Arguments, Key, Usage, true_or_false
from adanorm.config.compose import compose_experiment

USAGE = Usage(
    keys={"probe": Key("false: do not time anything", "true")},
    settings="of a run",
    examples=("task=en-de norm=adanorm", "task=en-de norm=adanorm precision=bf16 probe=false"),
)


def main(arguments: Arguments) -> None:
    """Print the plan of the run that the command line names."""
    is_timed = true_or_false("probe", arguments.keys["probe"])
    settings = [setting for setting in arguments.settings if setting != "scale=auto"]
    experiment = compose_experiment(settings)
    from adanorm.runs.plan import costs, measure, needs, ticking

    name = (
        f"{experiment.task.name} {experiment.norm.name} {experiment.scale}, seed {experiment.seed}"
    )
    print(f"{name}: {experiment.folder().name}", flush=True)
    for line in needs(experiment):
        _print(line)
    if is_timed:
        with ticking("timing       one batch through the whole model; probe=false leaves this out"):
            probe = measure(compose_experiment([*settings, "updates=1"]))
        for line in costs(experiment, probe):
            _print(line)


def _print(line: str) -> None:
    print(textwrap.fill(line, WIDTH, subsequent_indent=" " * 13), flush=True)
