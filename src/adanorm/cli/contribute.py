"""Write runs made here into one file that others can merge, with the golden losses of this machine.

Golden losses show whether two machines compute the same. Name a run as for `export`, a folder of
runs by its path. The file has their records, test outputs and environments, with checksums. Runs
that are no evidence for others, such as failed ones, are left out.
"""

import sys
import time

from adanorm.cli.command import Arguments, Key, Usage, output_path
from adanorm.cli.record_arguments import NAMES, named_runs
from adanorm.config.errors import one_line
from adanorm.config.titles import counted
from adanorm.files import writing_to
from adanorm.records import contribution
from adanorm.records.environment import describe
from adanorm.records.folder import path_text
from adanorm.records.lines import has_ended
from adanorm.records.reader import Record

USAGE = Usage(
    name=NAMES,
    keys={
        "output": Key("file to write", "contribution.jsonl.gz"),
        "by": Key("your name, for the table of norms"),
    },
    examples=("runs", "runs/rt/adanorm/paper-seed31-0a1b2c3d output=mine.jsonl.gz"),
)


def main(arguments: Arguments) -> None:
    """Write the runs that the command line names."""
    output, author = arguments.keys["output"], arguments.keys["by"]
    if not contribution.is_shown(author):
        longest = contribution.LONGEST_NAME
        raise ValueError(
            f"by={author}: write a name of"
            f" at most {longest} characters, in one line, without |; {contribution.HERE!r} is taken"
        )
    path = output_path(output, is_replaced=contribution.is_contribution)
    records, refusals = [], []
    for stored, _ in named_runs(arguments.names):
        # What ran here counts: the line that is kept may be of another run of it.
        record = Record(stored.folder) if has_ended(stored.folder) else stored
        try:
            if record.contribution:
                raise ValueError(f"came with the contribution {record.contribution}")
            records.append(contribution.check_contributable(record))
        except ValueError as error:
            refusals.append(f"{path_text(record.folder)}: {one_line(error)}")
    if not records:
        raise ValueError(refusals[0])
    for line in refusals:
        print(f"left out: {line}", file=sys.stderr)
    import torch

    from adanorm.runs.golden import golden_losses

    machine = describe(
        device=torch.device("cpu"),
        precision="fp32",
        processes=1,
        threads=1,
    )
    content = contribution.packed_runs(
        records,
        machine,
        golden_losses(contribution.golden_pairs(records)),
        by=author,
        date=time.strftime("%Y-%m-%d", time.gmtime()),
    )
    contribution.parse_contribution(content)  # refuses here what a merge would refuse
    with writing_to(path) as file:
        file.write(content)
    print(f"{path_text(path)}: {counted(len(records), 'run')}, {len(content):,} bytes")
