"""A copy of the repository for tests that extend it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from adanorm.config.paths import PROJECT
from tests import commands

NEEDED = ("src", "conf", "scripts", "tests", "docs/norms.md", "pyproject.toml", "results/published.csv")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the repository, without its records; Numba's compiled kernels, in __pycache__, are in it."""
    root = tmp_path / "copy"
    for name in NEEDED:
        source, target = PROJECT / name, root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.egg-info"))
        else:
            shutil.copy(source, target)
    return root


def in_copy(copy: Path, *arguments: str) -> str:
    """Run `python -m <arguments>` in a copy and return what it printed; fail where it does."""
    paths = {**os.environ, "PYTHONPATH": str(copy / "src")}
    done = commands.run(*arguments, cwd=copy, environment=paths, imported="libraries", timeout=250)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
