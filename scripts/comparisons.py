"""Bring results/comparisons up to date with the records: `python -m scripts.comparisons`.

Claims allow for the noise of test examples where two norms have been compared on them (`adanorm compare`). A
new seed or another setting, such as a tuned C, leaves such a comparison behind, and a verdict without that
noise may be another. Comparisons that lack or are of other seeds are made, which needs the task's data; those
that are spoiled, or of settings that no table has any more, are removed. scripts/regenerate begins with this.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from adanorm.config.compose import cached_experiment
from adanorm.config.paths import PROJECT, choices
from adanorm.records.comparisons import comparison_of, comparison_path
from adanorm.verdicts.by_example import Norms, bring_up_to_date, claimed_pairs, out_of_date
from adanorm.verdicts.claims import SCALES
from scripts.command_line import ended_by_mistakes, parse_keys

FOLDER = PROJECT / "results" / "comparisons"
CELLS = [(task, scale) for task in choices("task") for scale in SCALES]


def lacking() -> dict[tuple[str, str], list[Norms]]:
    """Return the pairs of norms, by task and scale, whose comparison lacks or is of other seeds."""
    found = {(task, scale): out_of_date(task, scale, claimed_pairs(task)) for task, scale in CELLS}
    return {cell: pairs for cell, pairs in found.items() if pairs}


def unread() -> list[Path]:
    """Return the comparisons that nothing reads: spoiled, or of settings that no table has any more."""
    return [path for path in sorted(FOLDER.rglob("*.json")) if not _is_current(path)]


def _is_current(path: Path) -> bool:
    try:
        record = comparison_of(path.read_bytes())
    except ValueError:
        return False
    settings = [f"task={record.task}", f"scale={record.scale}"]
    return path == comparison_path(*(cached_experiment([*settings, f"norm={norm}"]) for norm in record.norms))


def main(arguments: Sequence[str]) -> None:
    """Make what lacks, remove what nothing reads; raises ValueError for an argument or without data."""
    if {"-h", "--help"} & {*arguments}:
        print(__doc__)
        return
    parse_keys(arguments, {})
    for path in unread():
        path.unlink()
        print(f"{path.relative_to(PROJECT)}: removed, as nothing reads it")
    for task, scale in CELLS:
        for found in bring_up_to_date(task, scale, claimed_pairs(task)):
            worse, better = found.record.norms
            print(f"{task} {scale}: {better} over {worse}, {len(found.gaps)} seeds")


if __name__ == "__main__":
    with ended_by_mistakes():
        main(sys.argv[1:])
