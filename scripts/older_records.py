"""Write the list of records without a checksum, results/older-records.txt: `python -m scripts.older_records`.

Such a record counts only where the list has it. The suite has long written none: the list grows no more, and
is written again only after records on it were removed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from adanorm.config.paths import ANALYSES, PROJECT, RUNS
from adanorm.files import write_whole
from adanorm.records.older import PATH, checksum_of_older
from scripts.command_line import ended_by_mistakes, parse_keys


def lines() -> list[str]:
    """Return the list of the repository's records, a checksum and a folder a line, by folder."""
    results = sorted(path for folder in (RUNS, ANALYSES) for path in folder.rglob("result.json"))
    return [_line(path.parent) for path in results if "checksum" not in json.loads(path.read_bytes())]


def _line(folder: Path) -> str:
    return f"{checksum_of_older(folder)}  {folder.relative_to(PROJECT / 'results').as_posix()}\n"


def main(arguments: Sequence[str]) -> None:
    """Write the list; raises ValueError for any argument."""
    if {"-h", "--help"} & {*arguments}:
        print(__doc__)
        return
    parse_keys(arguments, {})
    write_whole(PATH, "".join(lines()).encode())


if __name__ == "__main__":
    with ended_by_mistakes():
        main(sys.argv[1:])
