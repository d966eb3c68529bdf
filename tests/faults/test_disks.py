"""Disks that fill up in the middle of a command: one line says so, and the next try does all."""

from pathlib import Path
from random import Random

import pytest

from tests.faults.command import WRITES, Ended, run
from tests.records.test_contribution import make_run, write

COMMANDS = {
    "keep": ["keep", "there", "into=made"],
    "contribute": ["contribute", "there", "output=made.gz"],
    "merge": ["merge", "file", "runs=made"],
    "export": ["export", "there", "output=made"],
    "log": ["log", "there", "logger=tensorboard", "output=made"],
    "run": ["run", "task=rt", "norm=adanorm", "scale=smoke", "runs=made", "data.cache=cache"],
}


def sizes(folder: Path) -> dict[str, int]:
    """Return the sizes of the files that a command has made, without locks, by their names' stems."""
    found = {}
    for path in folder.glob("made*/**/*" if not (folder / "made.gz").exists() else "made.gz"):
        if path.is_file() and path.suffix != ".lock":
            found[path.relative_to(folder).as_posix()] = path.stat().st_size
    return found


def on_a_disk(command: str, folder: Path, **limits: int) -> Ended:
    """Run a command in a folder that has two runs and a contribution of them."""
    if not (folder / "there").exists():
        # No record here has this setting of the data, so none has other files of the same data.
        unlike = "data.min_count=3"
        runs = [make_run(folder / "there", seed, setting=unlike) for seed in (1, 2)]
        write(folder / "file", *runs)
    return run(COMMANDS[command], folder, **limits)


@pytest.mark.nightly
@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_on_a_full_disk_ends_in_a_line_and_the_next_try_does_all(
    command: str, number: int, tmp_path: Path
) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "full"
    assert on_a_disk(command, whole).code == 0
    expected = sizes(whole)
    least = (whole / WRITES).stat().st_size + 200  # the names of the writes must fit
    largest = max(least + 1, *expected.values())
    limit = Random(f"{command} {number}").randrange(least, largest)
    full = on_a_disk(command, folder, largest_file=limit)
    assert full.code == 0 or full.is_refusal, (limit, full.summary)
    assert not [*folder.rglob("*.tmp"), *folder.rglob("*.part")]
    again = on_a_disk(command, folder)
    assert again.code == 0, again.summary
    assert len(sizes(folder)) == len(expected)
