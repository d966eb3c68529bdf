"""Write a kept record out as the folder that it was, byte for byte.

RUN is named as in results/runs, such as rt/adanorm/paper-seed1-09951176; `adanorm trace` prints the
names. The files go to FOLDER/<task>/<norm>/<name>. Commands with runs=FOLDER read the record if it
has a checksum.
"""

from pathlib import Path

from adanorm.cli.command import Arguments, Usage
from adanorm.records.folder import path_text
from adanorm.records.keep import kept_record, lay_out

USAGE = Usage(name="RUN FOLDER", examples=("rt/adanorm/paper-seed1-09951176 opened",))


def main(arguments: Arguments) -> None:
    """Lay out the record that the command line names."""
    run, folder = arguments.names
    print(path_text(lay_out(kept_record(run), Path(folder))))
