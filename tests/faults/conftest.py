import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from adanorm.records.lines import RECORD
from adanorm.records.reader import Record
from tests.faults.command import WRITES, run

TASKS = ("rt", "mnist", "de-en", "enwik8", "ptb", "gaussian")
# A checkpoint after every update; random numbers are drawn, and weights are averaged.
STEADY = ("norm=adanorm", "scale=smoke", "checkpoint_minutes=1e-6")
OF_TASK = {
    "rt": ("model.dropout=0.1", "training.average={of: best, count: 2}"),
    "de-en": ("model.dropout=0.1", "training.average={of: last, count: 2}"),
    "ptb": ("model.dropout=0.1",),
}
LINE_WRITTEN = f"rename {RECORD}"  # the write with which a run has ended
OPEN_ENDED = {"seconds", "cpu_seconds", "files", "checksum"}


class Undisturbed(NamedTuple):
    """An undisturbed run of a task, in a folder of its own."""

    task: str
    folder: Path

    @property
    def writes(self) -> list[str]:
        """The names of its writes."""
        return (self.folder / WRITES).read_text().splitlines()

    @property
    def result(self) -> dict[str, Any]:
        values = json.loads(_files(self.folder)["result.json"])
        assert isinstance(values, dict)
        return values

    def settings(self, folder: Path) -> list[str]:
        """Return the settings of the same run in another folder."""
        folders = [f"runs={folder / 'runs'}", f"data.cache={folder / 'cache'}"]
        return [f"task={self.task}", *STEADY, *OF_TASK.get(self.task, ()), *folders]

    def difference(self, folder: Path) -> str:
        """Return how the run in another folder differs, or what it left behind; empty if nothing."""
        files, expected = _files(folder), _files(self.folder)
        for name in files.keys() | expected.keys():
            if name not in files or name not in expected:
                return f"only one has {name}"
            if _shared(name, files[name]) != _shared(name, expected[name]):
                return f"{name} differs"
        leftovers = [path.name for path in folder.rglob("*") if path.suffix in (".tmp", ".part")]
        return f"{', '.join(leftovers)} left" if leftovers else ""


def _files(folder: Path) -> dict[str, bytes]:
    """Return by name the files of the one run that has ended in a folder, with its weights."""
    (path,) = folder.rglob(RECORD)
    weights = path.with_name("weights.safetensors")
    return {**Record(path.parent).contents(), weights.name: weights.read_bytes()}


def _shared(name: str, content: bytes) -> object:
    """Return the content of a file, JSON without the keys in which all runs differ."""
    if name in ("environment.json", "changes.patch"):
        return None
    if not name.endswith((".json", ".jsonl")):
        return content
    rows = content.splitlines() if name.endswith(".jsonl") else [content]
    shared = []
    for values in map(json.loads, rows):
        shared.append({key: value for key, value in values.items() if key not in OPEN_ENDED})
    return shared


@pytest.fixture(scope="session", params=TASKS)
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """The undisturbed run of each task."""
    undisturbed = Undisturbed(request.param, tmp_path_factory.mktemp(request.param))
    ended = run(["run", *undisturbed.settings(undisturbed.folder)], undisturbed.folder)
    assert ended.code == 0, ended.stderr
    return undisturbed
