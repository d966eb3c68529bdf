"""Files changed just before their n-th opening: a run reads what it was named by, or refuses in one line."""

import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from adanorm import tasks
from adanorm.config.compose import compose_experiment
from adanorm.tasks import TrainingTask
from adanorm.tasks.translation import Translation
from tests.faults.data_files import DATA, write_good_files

KINDS = ("sentences", "trees", "bytes", "pairs")
FILES = [(kind, name) for kind in KINDS for name in DATA[kind].files(Random(kind))]
_at_open: list[Callable[[str], None]] = []
_hooked: list[bool] = []


def _hook(event: str, values: tuple[Any, ...]) -> None:
    if event == "open" and _at_open and isinstance(values[0], str | os.PathLike):
        _at_open[0](os.fspath(values[0]))


@contextmanager
def edited(path: Path, opening: int, *, undone: bool) -> Iterator[None]:
    """Turn the lines of a file round at its n-th opening in a block, and perhaps back at the next."""
    if not _hooked:  # a hook stays for good
        sys.addaudithook(_hook)
        _hooked.append(True)
    good, count = path.read_bytes(), 0
    bad = b"\n".join(good.split(b"\n")[-2::-1]) + b"\n" if path.suffix != "" else good[::-1]

    def at_open(name: str) -> None:
        nonlocal count
        if name != str(path):
            return
        count += 1
        if count == opening or (undone and count == opening + 1):
            hooks, _at_open[:] = _at_open[:], []
            path.write_bytes(bad if count == opening else good)
            _at_open[:] = hooks

    _at_open[:] = [at_open]
    try:
        yield
    finally:
        _at_open.clear()
        path.write_bytes(good)


def state(task: TrainingTask) -> str:
    """Return a digest of what a task has read: its first batches, checksums, and what was prepared."""
    digest = hashlib.sha256(repr((task.sizes, sorted(task.checksums.items()))).encode())
    for batch in list(task.train_batches(0))[:3]:
        digest.update(repr(vars(batch)).encode())
    prepared = task.corpus.folder if isinstance(task, Translation) else None
    for path in sorted(prepared.iterdir()) if prepared else ():
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


@pytest.mark.nightly
@pytest.mark.parametrize("undone", [False, True], ids=["for good", "and back"])
@pytest.mark.parametrize("opening", range(1, 7))
@pytest.mark.parametrize(("kind", "name"), FILES)
def test_a_file_edited_at_one_of_its_openings_is_read_as_named_or_refused(
    tmp_path: Path, kind: str, name: str, opening: int, *, undone: bool
) -> None:
    write_good_files(kind, tmp_path)
    settings = ["scale=smoke", "norm=adanorm", *DATA[kind].arguments(tmp_path)]
    whole = compose_experiment([*settings, f"data.cache={tmp_path / 'whole' / 'cache'}"])
    expected = state(tasks.build(whole))
    run = compose_experiment([*settings, f"data.cache={tmp_path / 'run' / 'cache'}"])
    refusal = ""
    with edited(tmp_path / name, opening, undone=undone):
        try:
            digest, task = run.digest, tasks.build(run)
        except ValueError as error:
            refusal = str(error)
    if refusal:
        assert "\n" not in refusal
        assert not list(tmp_path.glob("run/cache/prepared/*.part"))
        again = compose_experiment([*settings, f"data.cache={tmp_path / 'run' / 'cache'}"])
        digest, task = again.digest, tasks.build(again)
    # A run with another name may have read the edited file.
    assert digest != whole.digest or state(task) == expected
