"""Locks against the requirements that they pin, on changed copies."""

import shutil
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from adanorm.config.paths import PROJECT
from scripts.locks import PYTHON, problems


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in ("pyproject.toml", "constraints.txt"):
        shutil.copy(PROJECT / name, tmp_path)
    shutil.copytree(PROJECT / "locks", tmp_path / "locks")
    return tmp_path


def changed(path: Path, old: str, new: str) -> None:
    before, mark, after = path.read_text().partition(old)
    assert mark
    path.write_text(before + new + after)


def test_the_committed_locks_match_the_committed_requirements() -> None:
    assert problems(PROJECT) == []


def test_pins_support_the_first_python_that_the_package_allows() -> None:
    """Debian 12 has 3.11.2; pip searches for minutes where a pin needs a later one."""
    pinned = (PROJECT / "constraints.txt").read_text()
    for package in distributions():
        needs = package.metadata["Requires-Python"]
        if needs and f"\n{package.name}=={package.version}\n" in pinned:
            assert SpecifierSet(needs).contains(PYTHON), package.name
    assert PYTHON == "3.11.0"
    assert "soupsieve==2." in pinned, "no part of every installation; later ones need 3.11.5"


def test_a_new_dependency_is_missed_in_both_locks(copy: Path) -> None:
    changed(
        copy / "pyproject.toml",
        '"jinja2",',
        '"jinja2", "novel[extra]>=2",',
    )
    lines = problems(copy)
    messages = (
        "of other requirements than pyproject.toml and constraints.txt name",
        "novel is not pinned",
    )
    assert lines == [f"locks/{kind}.txt: {line}" for kind in ("cpu", "cuda") for line in messages]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "jinja2==3.1.6",
            "jinja2==3.1.5",
            "jinja2==3.1.5, not 3.1.6 as in constraints.txt",
        ),
        (
            "torch==2.13.0+cpu",
            "torch==2.12.0+cpu",
            "torch==2.12.0, not 2.13.0 as in constraints.txt",
        ),
        (
            "jinja2==3.1.6",
            "first==1.0\njinja2==3.1.6",
            "first==1.0 has no hash",
        ),
        (
            "\njinja2==",
            "\n--find-links /mine\njinja2==",
            "names an address",
        ),
    ],
)
def test_a_lock_changed_by_hand_is_named(copy: Path, old: str, new: str, message: str) -> None:
    changed(copy / "locks" / "cpu.txt", old, new)
    assert any(line.startswith("locks/cpu.txt: ") and message in line for line in problems(copy))
