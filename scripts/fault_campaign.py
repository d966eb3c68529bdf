"""Faults put in on purpose, and what becomes of them: `scripts/fault-campaign`, minutes.

Runs of scale smoke are killed before a write or at any moment and started again; files that the suite
writes or reads are flipped, cut, emptied or removed; malformed command lines, studies and data files go to
every command. Right is: the undisturbed run's very numbers, or one line and code 2 with nothing written.
Prints a line for whatever went wrong and a table of what was tried; the exit code is 1 if anything did.

Keys: seed=1, kills=300, corruptions=300, inputs=1000, tasks=rt,mnist,... (default: one a kind).
The same seed and keys put in the same faults, but for the moments of kills by time.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from adanorm.cli.values import whole_number
from adanorm.config.paths import choices
from scripts.command_line import ended_by_mistakes, parse_keys
from scripts.faults.corruptions import corruption_campaign
from scripts.faults.inputs import input_campaign
from scripts.faults.kills import Verdict, kill_campaign, prepared_case
from scripts.faults.process import warm_up

TASKS = "rt,mnist,de-en,enwik8,ptb,gaussian"
DEFAULTS = {"seed": "1", "kills": "300", "corruptions": "300", "inputs": "1000", "tasks": TASKS}


def main(arguments: Sequence[str]) -> int:
    """Put in the faults and return the exit code; raises ValueError for arguments that it does not take."""
    if {"-h", "--help"} & {*arguments}:
        print(__doc__)
        return 0
    keys = parse_keys(arguments, DEFAULTS)
    numbers = {
        key: whole_number(key, keys[key], at_least=0) for key in ("seed", "kills", "corruptions", "inputs")
    }
    tasks = keys["tasks"].split(",")
    if unknown := next((task for task in tasks if task not in choices("task")), None):
        raise ValueError(f"tasks={unknown}: choose from {', '.join(choices('task'))}")
    os.environ["OMP_NUM_THREADS"] = "1"
    tried, wrong = Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="fault-campaign-") as folder:
        for verdict in _verdicts(numbers, tasks, Path(folder)):
            tried[verdict.kind] += 1
            wrong[verdict.kind] += bool(verdict.wrong)
            if verdict.wrong:
                print(f"WRONG {verdict.kind}: {verdict.what}: {verdict.wrong}", flush=True)
    print(f"{'':<28}{'tried':>7}{'right':>7}{'wrong':>7}")
    for kind in tried:
        print(f"{kind:<28}{tried[kind]:>7}{tried[kind] - wrong[kind]:>7}{wrong[kind]:>7}")
    print(f"{'all':<28}{tried.total():>7}{tried.total() - wrong.total():>7}{wrong.total():>7}")
    return int(wrong.total() > 0)


def _verdicts(numbers: dict[str, int], tasks: Sequence[str], folder: Path) -> Iterator[Verdict]:
    warm_up(folder / "warm", tasks)
    seed = numbers["seed"]
    if numbers["kills"] or numbers["corruptions"]:
        cases = [prepared_case(task, folder) for task in tasks]
        yield from kill_campaign(cases, numbers["kills"], Random(f"{seed} kills"), folder)
        yield from corruption_campaign(cases, numbers["corruptions"], Random(f"{seed} corruptions"), folder)
    yield from input_campaign(numbers["inputs"], Random(f"{seed} inputs"), folder / "inputs")


if __name__ == "__main__":
    with ended_by_mistakes():
        raise SystemExit(main(sys.argv[1:]))
