"""Add finished records to the store: one line per run in results/runs/<task>/<norm>.jsonl.

The line has the texts of the run's files, verbatim; the test set's outputs go to
<norm>.outputs.jsonl beside it. Commit both to git. A run is refused if it failed, is of scale smoke
or is incomplete. One that is kept already stays as it is. The run's folder stays, with its weights,
until you remove it.
"""

from pathlib import Path

from adanorm.cli.command import Arguments, Key, Usage
from adanorm.records.folder import path_text
from adanorm.records.keep import keep

USAGE = Usage(
    name="RUN...",
    keys={"into": Key("folder of runs whose store gets the lines (default: results/runs)")},
    examples=("runs/rt/adanorm/paper-seed31-0a1b2c3d", "results/runs/rt/*/*"),
)


def main(arguments: Arguments) -> None:
    """Keep the records in the folders that the command line names."""
    into = Path(arguments.keys["into"]) if arguments.keys["into"] else None
    for name in arguments.names:
        print(
            f"{path_text(Path(name))}: {'kept' if keep(Path(name), into=into) else 'kept already'}"
        )
