"""Keep finished runs: copy their lines to results/runs/<task>/<norm>.jsonl.

A line has the texts of the run's files, verbatim; the test set's outputs and the counts per example
go to <norm>.examples beside it. Commit both to git. RUN is the folder of a run, or a folder of
runs, also one that an older version wrote. A run is refused if it failed, is of scale smoke or is
not whole; those of a folder of runs are left out. One that is kept already stays as it is. The
run's folder stays, with its weights, until you remove it.
"""

import sys
from pathlib import Path

from adanorm.cli.command import Arguments, Key, Usage, folder_of
from adanorm.config.paths import RUNS
from adanorm.config.titles import counted
from adanorm.records.folder import path_text
from adanorm.records.integrity import NAME
from adanorm.records.keep import keep
from adanorm.records.reader import Record, records

USAGE = Usage(
    name="RUN...",
    keys={"into": Key("folder of runs that keeps the lines (default: results/runs)")},
    examples=("runs/rt/adanorm/paper-seed31-0a1b2c3d", "runs"),
)


def main(arguments: Arguments) -> None:
    """Keep the runs that the command line names."""
    into = Path(folder_of(arguments.keys["into"]) or RUNS)
    for name in arguments.names:
        folder = Path(name)
        if NAME.fullmatch(folder.name):
            is_new = keep(Record(folder), into=into)
            print(f"{path_text(folder)}: {'kept' if is_new else 'kept already'}")
        else:
            _keep_all(folder, into)


def _keep_all(folder: Path, into: Path | None) -> None:
    """Keep the runs in a folder of runs that are evidence, and print how many were new."""
    new = present = 0
    for record in records(folder):
        if record.contribution:
            continue
        try:
            is_new = keep(record, into=into)
        except ValueError as error:
            print(f"left out: {error}", file=sys.stderr)
            continue
        new, present = new + is_new, present + (not is_new)
    if not new + present:
        raise ValueError(f"{path_text(folder)}: no run there can be kept")
    print(f"{path_text(folder)}: {counted(new, 'run')} kept, {present} kept already")
