"""Write runs made here into one file that others can merge, with the golden losses of this machine.

RUN is the folder of a run, or a folder of runs, of which those are taken that others can use. The file has
their records, test outputs and environments, and checksums of it all. Failed runs and scale smoke are no
evidence and stay here.
"""

import sys
from pathlib import Path

from adanorm.cli.command import Arguments, Key, Usage
from adanorm.config.errors import one_line
from adanorm.config.paths import choices
from adanorm.config.titles import counted
from adanorm.files import write_whole
from adanorm.records import contribution, reader
from adanorm.records.environment import describe
from adanorm.records.folder import shown

USAGE = Usage(
    name="RUN...",
    fewest=1,
    most=100_000,
    keys={"output": Key("file to write", "contribution.jsonl.gz")},
    examples=("runs", "results/runs/rt/adanorm/paper-seed31-0a1b2c3d output=mine.jsonl.gz"),
)


def main(arguments: Arguments) -> None:
    """Write the records in the folders that the command line names."""
    records = [one for name in arguments.names for one in _records(Path(name).resolve())]
    import torch

    from adanorm.runs.golden import losses_of

    pairs = {(one.folder.parts[-3], norm) for one in records for norm in (one.folder.parts[-2], "layernorm")}
    golden = losses_of(f"{task}/{norm}" for task, norm in sorted(pairs) if norm in choices("norm"))
    machine = describe(device=torch.device("cpu"), precision="fp32", processes=1, threads=1)
    content = contribution.written(records, machine, golden)
    count = len(contribution.read(content).records)  # as whoever merges it will
    path = Path(arguments.keys["output"])
    write_whole(path, content)
    print(f"{shown(path)}: {counted(count, 'run')}, {len(content):,} bytes")


def _records(folder: Path) -> list[reader.Record]:
    """Return the runs in a folder that others can use; raises ValueError where there is none."""
    named, taken = reader.record(folder), list[reader.Record]()
    is_run = named.has("result.json")
    for one in [named] if is_run else reader.records(folder):
        try:
            if one.contribution:
                raise ValueError("it was made elsewhere")
            taken.append(contribution.checked(one.folder.name, one.contents()))
        except ValueError as error:
            problem = f"{shown(one.folder)}: {one_line(error)}"
            if is_run:
                raise ValueError(problem) from None
            print(f"left out: {problem}", file=sys.stderr)
    if not taken:
        raise ValueError(f"{shown(folder)}: has no finished run that others can use")
    return taken
