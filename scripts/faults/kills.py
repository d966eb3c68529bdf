"""Runs killed before a write or at any moment, and started again: the end must be the undisturbed one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from scripts.faults.process import Ended, run

# A checkpoint an update; what draws random numbers is on, and weights are averaged.
STEADY = ("norm=adanorm", "scale=smoke", "checkpoint_minutes=1e-6")
OF_TASK = {
    "rt": ("model.dropout=0.1", "training.average={of: best, count: 2}"),
    "de-en": ("model.dropout=0.1", "training.average={of: last, count: 2}"),
    "ptb": ("model.dropout=0.1",),
}
OPEN_ENDED = {"seconds", "files", "checksum"}  # of a result: no two runs agree in them


class Verdict(NamedTuple):
    """What was done, and what was wrong with what became of it; empty where nothing was."""

    kind: str
    what: str
    wrong: str = ""


class Case(NamedTuple):
    """A task's undisturbed run in a folder of its own."""

    task: str
    place: Path
    writes: int
    seconds: float

    def arguments(self, place: Path) -> list[str]:
        """Return the command line of the same run in another folder."""
        own = OF_TASK.get(self.task, ())
        return [
            "run",
            f"task={self.task}",
            *STEADY,
            *own,
            f"runs={place / 'runs'}",
            f"data.cache={place / 'cache'}",
        ]


def prepared_case(task: str, folder: Path) -> Case:
    """Return a task's undisturbed run, made now; its writes are counted without those of a preparation."""
    case = Case(task, folder / f"whole-{task}", 0, 0.0)
    ended = run(case.arguments(case.place), case.place, count=True)
    assert ended.code == 0, f"{task}: {ended.stderr}"
    writes = int((case.place / "writes").read_text())
    (result,) = case.place.glob("runs/*/*/*/result.json")
    return case._replace(writes=writes, seconds=json.loads(result.read_bytes())["seconds"] + 0.5)


def kill_campaign(cases: Sequence[Case], count: int, random: Random, folder: Path) -> Iterator[Verdict]:
    """Yield a verdict for every kill: the runs go on from where they were killed, and are killed again."""
    for number in range(count):
        case = random.choice(cases)
        place = folder / f"kill-{number}"
        times = random.choice((1, 1, 2, 3))
        described = []
        for _ in range(times):
            if random.random() < 0.6:
                at = random.randrange(1, case.writes + 1)
                run(case.arguments(place), place, kill_at=at)
                described.append(f"before write {at}")
            else:
                after = random.uniform(0.1, 1.5 * case.seconds)
                run(case.arguments(place), place, kill_after=after)
                described.append(f"after {after:.2f} s")
        ended = run(case.arguments(place), place)
        wrong = ended.stderr.strip() if ended.code else difference(case, place)
        yield Verdict("kill", f"{case.task}, {', '.join(described)}", wrong)
        shutil.rmtree(place)


def difference(case: Case, place: Path) -> str:
    """Return in what a run differs from the undisturbed one, and what it left behind; empty: in nothing."""
    (whole,), found = case.place.glob("runs/*/*/*/result.json"), [*place.glob("runs/*/*/*/result.json")]
    if len(found) != 1:
        return f"{len(found)} results"
    for name in ("predictions.txt.gz", "weights.safetensors", "config.yaml"):
        ours, theirs = whole.parent / name, found[0].parent / name
        if ours.exists() != theirs.exists() or (ours.exists() and ours.read_bytes() != theirs.read_bytes()):
            return f"{name} differs"
    for name in ("result.json", "metrics.jsonl"):
        if _values(whole.parent / name) != _values(found[0].parent / name):
            return f"{name} differs"
    left = [path.name for path in place.rglob("*") if path.suffix in (".tmp", ".part")]
    return f"left behind: {', '.join(left)}" if left else ""


def _values(path: Path) -> list[dict[str, object]]:
    text = path.read_text()
    rows = [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else [json.loads(text)]
    return [{key: value for key, value in row.items() if key not in OPEN_ENDED} for row in rows]


def told(ended: Ended) -> str:
    """Return the end of what a command said, for a verdict."""
    return f"code {ended.code}: {' / '.join(ended.stderr.strip().splitlines()[-3:])}"
