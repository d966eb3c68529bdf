"""Runs killed before a write or at any moment, and started again."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.faults.command import run
from tests.faults.conftest import TASKS, Undisturbed


@pytest.mark.nightly
@pytest.mark.parametrize("number", range(50))
@pytest.mark.parametrize("task", TASKS)
def test_a_run_that_is_killed_up_to_three_times_ends_as_the_undisturbed_one(
    undisturbed: Callable[[str], Undisturbed], task: str, number: int, tmp_path: Path
) -> None:
    whole, random = undisturbed(task), Random(f"{task} {number}")
    command = ["run", *whole.settings(tmp_path)]
    seconds = json.loads(whole.result.read_bytes())["seconds"] + 0.5
    for _ in range(random.choice((1, 1, 2, 3))):
        if random.random() < 0.6:
            run(command, tmp_path, kill_at=random.randrange(1, whole.writes + 1))
        else:
            run(command, tmp_path, kill_after=random.uniform(0.1, 1.5 * seconds))
    ended = run(command, tmp_path)
    assert ended.code == 0, ended.summary
    assert not whole.difference(tmp_path)
