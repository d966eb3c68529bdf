"""The campaign of faults, as far as it can be tested without running it."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from adanorm.cli.command import COMMANDS
from scripts.fault_campaign import main
from scripts.faults.data_files import DATA, good_files
from scripts.faults.inputs import GOOD
from scripts.faults.process import changes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["task=rt"], "unknown argument 'task=rt'"),
        (["tasks=rtt"], "tasks=rtt: choose from"),
        (["kills=x"], "kills=x"),
    ],
)
def test_mistakes_are_told_before_any_fault(arguments: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        main(arguments)


def test_every_command_has_a_good_line_to_spoil() -> None:
    assert set(GOOD) == set(COMMANDS)


def test_the_same_seed_spoils_files_alike_and_every_way_spoils(tmp_path: Path) -> None:
    content = Random(1).randbytes(1000)
    first, second = ({name: edit(content) for name, edit in changes(Random(7)).items()} for _ in range(2))
    assert first == second
    assert content not in first.values()
    for kind in DATA:
        before = {path: path.read_bytes() for path in good_files(kind, tmp_path)}
        assert before == {path: path.read_bytes() for path in good_files(kind, tmp_path)}
