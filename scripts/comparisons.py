"""Bring results/comparisons up to date with the records: `python -m scripts.comparisons`.

Claims allow for the noise of test examples where two norms have been compared on them (`adanorm compare`). A
new seed or another setting, such as a tuned C, leaves such a comparison behind, and a verdict without that
noise may be another. Comparisons that lack or are of other seeds are made, which needs the task's data;
those of settings that no table has any more are removed. scripts/regenerate begins with this.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from adanorm.cli.compare import claimed_pairs, compare, shared_seeds
from adanorm.config.compose_cache import cached_experiment
from adanorm.config.experiment import Experiment
from adanorm.config.paths import PROJECT, choices
from adanorm.records.comparisons import ComparisonRecord, comparison_path
from adanorm.reporting.verdicts.claims import SCALES
from adanorm.reporting.verdicts.preregistration import preregistration
from scripts.command_line import ended_by_mistakes, parse_keys

FOLDER = PROJECT / "results" / "comparisons"


class Wanted(NamedTuple):
    """A comparison of two norms, the worse first, over all seeds that they share."""

    task: str
    scale: str
    norms: tuple[str, str]
    seeds: list[int]


def wanted() -> dict[Path, Wanted]:
    """Return the comparisons that claims read, by path: of norms whose runs kept their outputs."""
    found = {}
    for task, scale in ((task, scale) for task in choices("task") for scale in SCALES):
        if not (pairs := claimed_pairs(task)):
            continue
        runs = _runs(task, scale)
        for pair in pairs:
            seeds = shared_seeds(runs, pair)
            if seeds and all(_has_outputs(runs[norm], seed) for norm in pair for seed in seeds):
                path = comparison_path(*(runs[norm] for norm in pair))
                found[path] = Wanted(task, scale, pair, seeds)
    return found


def outdated(of: Mapping[Path, Wanted]) -> tuple[list[Path], list[Path]]:
    """Return the paths of comparisons that lack or are of other seeds, and of files that nothing reads."""
    lacking = [path for path, one in of.items() if not path.exists() or _read(path).seeds != one.seeds]
    return lacking, [
        path for path in sorted(FOLDER.rglob("*.json")) if path not in of and not _is_current(path)
    ]


def _runs(task: str, scale: str) -> dict[str, Experiment]:
    settings = [f"task={task}", f"scale={scale}"]
    return {norm: cached_experiment([*settings, f"norm={norm}"]) for norm in preregistration().norms}


def _has_outputs(run: Experiment, seed: int) -> bool:
    return (run.model_copy(update={"seed": seed}).folder() / "predictions.txt.gz").exists()


def _read(path: Path) -> ComparisonRecord:
    return ComparisonRecord.model_validate_json(path.read_bytes())


def _is_current(path: Path) -> bool:
    """Return whether a comparison is of norms as they are set now, if not of a claim's."""
    record = _read(path)
    settings = [f"task={record.task}", f"scale={record.scale}"]
    return path == comparison_path(*(cached_experiment([*settings, f"norm={norm}"]) for norm in record.norms))


def main(arguments: Sequence[str]) -> None:
    """Make what lacks, remove what nothing reads; raises ValueError for an argument or without data."""
    if {"-h", "--help"} & {*arguments}:
        print(__doc__)
        return
    parse_keys(arguments, {})
    every = wanted()
    lacking, unread = outdated(every)
    for path in unread:
        path.unlink()
        print(f"{path.relative_to(PROJECT)}: removed, of settings that are no more")
    together: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for path in lacking:
        together[every[path].task, every[path].scale].append(every[path].norms)
    for (task, scale), pairs in together.items():
        print("\n".join(compare(_runs(task, scale), pairs)))


if __name__ == "__main__":
    with ended_by_mistakes():
        main(sys.argv[1:])
