"""Runs killed at any moment, and their files spoiled: the same numbers come out, or a line says why not."""

import shutil
from pathlib import Path
from random import Random

import pytest

from tests.faults.command import run
from tests.faults.conftest import LINE_WRITTEN, Undisturbed
from tests.faults.spoiling import OF_BYTES, spoil


@pytest.mark.nightly
@pytest.mark.parametrize("number", range(50))
def test_a_killed_run_ends_as_the_undisturbed_one(
    whole: Undisturbed, number: int, tmp_path: Path
) -> None:
    command, random = ["run", *whole.settings(tmp_path)], Random(f"{whole.task} {number}")
    seconds = whole.result["seconds"] + 0.5
    for _ in range(random.choice((1, 1, 2, 3))):
        if random.random() < 0.6:
            run(command, tmp_path, kill_at=random.randrange(1, len(whole.writes) + 1))
        else:
            run(command, tmp_path, kill_after=random.uniform(0.1, 1.5 * seconds))
    ended = run(command, tmp_path)
    assert ended.code == 0, ended.summary
    assert not whole.difference(tmp_path)


def spoil_any(folder: Path, random: Random) -> Path | None:
    """Spoil some file of a run and return it; None where no file is written yet."""
    files = sorted(
        path for path in folder.glob("*/**/*") if path.is_file() and path.suffix != ".lock"
    )
    if not files:
        return None
    path = random.choice(files)
    spoil(path, random.choice([*OF_BYTES]), random)
    return path


@pytest.mark.nightly
@pytest.mark.parametrize("number", range(20))
def test_a_killed_run_with_a_spoiled_file_ends_as_the_undisturbed_one(
    whole: Undisturbed, number: int, tmp_path: Path
) -> None:
    command, random = ["run", *whole.settings(tmp_path)], Random(f"{whole.task} {number}")
    end = whole.writes.index(LINE_WRITTEN)
    run(command, tmp_path, kill_at=random.randrange(end // 2, end + 1))
    path = spoil_any(tmp_path, random)
    ended = run(command, tmp_path)
    assert ended.code == 0, (path, ended.summary)
    assert not whole.difference(tmp_path), path


@pytest.mark.nightly
@pytest.mark.parametrize("number", range(20))
def test_a_finished_run_with_a_spoiled_file_is_as_it_was_or_made_again(
    whole: Undisturbed, number: int, tmp_path: Path
) -> None:
    random, folder = Random(f"{whole.task} {number}"), tmp_path / "copy"
    shutil.copytree(whole.folder, folder)
    settings = whole.settings(folder)
    study = tmp_path / "own.yaml"
    study.write_text(
        f"title: t\nrows: [adanorm]\ncolumns: [{whole.task}]\nscale: smoke\nseeds: [1]\n"
    )
    path = spoil_any(folder, random)
    assert path is not None
    for command in (
        ["status", str(study), f"runs={folder / 'runs'}"],
        ["compare", *(f"{a},layernorm" if a.startswith("norm=") else a for a in settings)],
    ):
        ended = run(command, folder)
        assert ended.code == 0 or ended.is_refusal, (path, command[0], ended.summary)
    ended = run(["run", *settings], folder)
    assert ended.code == 0, (path, ended.summary)
    assert path.name == "weights.safetensors" or not whole.difference(folder), path
