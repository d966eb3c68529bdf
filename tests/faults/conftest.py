from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.faults.command import WRITES, run

TASKS = ("rt", "mnist", "de-en", "enwik8", "ptb", "gaussian")
# A checkpoint after every update; what draws random numbers is on, and weights are averaged.
STEADY = ("norm=adanorm", "scale=smoke", "checkpoint_minutes=1e-6")
OF_TASK = {
    "rt": ("model.dropout=0.1", "training.average={of: best, count: 2}"),
    "de-en": ("model.dropout=0.1", "training.average={of: last, count: 2}"),
    "ptb": ("model.dropout=0.1",),
}
OPEN_ENDED = {"seconds", "cpu_seconds", "files", "checksum"}  # of a result: no two runs agree in them


class Undisturbed(NamedTuple):
    """A task's run that nothing disturbed, in a folder of its own."""

    task: str
    folder: Path

    @property
    def writes(self) -> int:
        return int((self.folder / WRITES).read_text())

    @property
    def result(self) -> Path:
        (path,) = self.folder.rglob("result.json")
        return path

    def settings(self, folder: Path) -> list[str]:
        """Return the settings of the same run in another folder."""
        own = OF_TASK.get(self.task, ())
        return [
            f"task={self.task}",
            *STEADY,
            *own,
            f"runs={folder / 'runs'}",
            f"data.cache={folder / 'cache'}",
        ]

    def difference(self, folder: Path) -> str:
        """Return in what the run in another folder differs, or what it left behind; empty: in nothing."""
        results = [*folder.rglob("result.json")]
        if len(results) != 1:
            return f"{len(results)} results"
        for name in ("predictions.txt.gz", "weights.safetensors", "config.yaml"):
            ours, theirs = results[0].parent / name, self.result.parent / name
            if ours.exists() != theirs.exists() or (
                ours.exists() and ours.read_bytes() != theirs.read_bytes()
            ):
                return f"{name} differs"
        for name in ("result.json", "metrics.jsonl"):
            if _values(results[0].parent / name) != _values(self.result.parent / name):
                return f"{name} differs"
        return ", ".join(
            f"{path.name} left" for path in folder.rglob("*") if path.suffix in (".tmp", ".part")
        )


def _values(path: Path) -> list[dict[str, object]]:
    text = path.read_text()
    rows = [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else [json.loads(text)]
    return [{key: value for key, value in row.items() if key not in OPEN_ENDED} for row in rows]


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Undisturbed]:
    """Makes the undisturbed run of a task, once."""

    @cache
    def made(task: str) -> Undisturbed:
        whole = Undisturbed(task, tmp_path_factory.mktemp(task))
        ended = run(["run", *whole.settings(whole.folder)], whole.folder)
        assert ended.code == 0, ended.stderr
        return whole

    return made
