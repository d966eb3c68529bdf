"""Download, verify and prepare what a run would need, and print sizes and checksums."""

from __future__ import annotations

from adanorm.cli.command import Arguments, Usage
from adanorm.runs.auto_scale import experiment_of

USAGE = Usage(settings="of a run", examples=("task=rt", "task=de-en scale=mini"))


def main(arguments: Arguments) -> None:
    """Get the data of the task that the command line names."""
    experiment = experiment_of(arguments.settings)
    from adanorm import tasks

    task = tasks.build(experiment)
    sizes = ", ".join(f"{split} {size:,}" for split, size in task.sizes.items())
    print(f"{experiment.task.name} {experiment.scale}: {sizes}")
    for name, checksum in task.checksums.items():
        print(f"  {name}  sha256 {checksum}")
