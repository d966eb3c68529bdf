import json
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.faults.command import WRITES, run

TASKS = ("rt", "mnist", "de-en", "enwik8", "ptb", "gaussian")
# A checkpoint after every update; random numbers are drawn, and weights are averaged.
STEADY = ("norm=adanorm", "scale=smoke", "checkpoint_minutes=1e-6")
OF_TASK = {
    "rt": ("model.dropout=0.1", "training.average={of: best, count: 2}"),
    "de-en": ("model.dropout=0.1", "training.average={of: last, count: 2}"),
    "ptb": ("model.dropout=0.1",),
}
COMPARED = (
    "predictions.txt.gz",
    "weights.safetensors",
    "config.yaml",
    "result.json",
    "metrics.jsonl",
)
OPEN_ENDED = {"seconds", "cpu_seconds", "files", "checksum"}


class Undisturbed(NamedTuple):
    """An undisturbed run of a task, in a folder of its own."""

    task: str
    folder: Path

    @property
    def writes(self) -> int:
        return len((self.folder / WRITES).read_text().splitlines())

    @property
    def result(self) -> Path:
        (path,) = self.folder.rglob("result.json")
        return path

    def settings(self, folder: Path) -> list[str]:
        """Return the settings of the same run in another folder."""
        folders = [f"runs={folder / 'runs'}", f"data.cache={folder / 'cache'}"]
        return [f"task={self.task}", *STEADY, *OF_TASK.get(self.task, ()), *folders]

    def difference(self, folder: Path) -> str:
        """Return how the run in another folder differs, or what it left behind; empty if nothing."""
        results = [*folder.rglob("result.json")]
        if len(results) != 1:
            return f"{len(results)} results"
        for name in COMPARED:
            if _content(results[0].parent / name) != _content(self.result.parent / name):
                return f"{name} differs"
        leftovers = [path.name for path in folder.rglob("*") if path.suffix in (".tmp", ".part")]
        return f"{', '.join(leftovers)} left" if leftovers else ""


def _content(path: Path) -> object:
    """Return the content of a file, JSON without the keys in which all runs differ; None without a file."""
    if not path.exists() or not path.suffix.startswith(".json"):
        return path.read_bytes() if path.exists() else None
    text = path.read_text()
    rows = map(json.loads, text.splitlines() if path.suffix == ".jsonl" else [text])
    return [{key: value for key, value in row.items() if key not in OPEN_ENDED} for row in rows]


@pytest.fixture(scope="session", params=TASKS)
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """The undisturbed run of each task."""
    undisturbed = Undisturbed(request.param, tmp_path_factory.mktemp(request.param))
    ended = run(["run", *undisturbed.settings(undisturbed.folder)], undisturbed.folder)
    assert ended.code == 0, ended.stderr
    return undisturbed
