"""Shared by the tests of reporting."""

import re
import subprocess
from pathlib import Path

import pytest

from adanorm.config.paths import PROJECT


@pytest.fixture(scope="session")
def committed_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the records that git knows, and of no others made here."""
    git = [
        "git",
        "-C",
        str(PROJECT),
        "ls-files",
        "results/runs*",
        "results/analyses",
    ]
    listed = subprocess.run(
        git,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.split()
    if not listed:
        pytest.skip("no git repository here, so no committed records")
    folder = tmp_path_factory.mktemp("committed")
    for name in listed:
        path = Path(re.sub("^results(/runs)?", str(folder), name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(PROJECT / name)
    return folder
