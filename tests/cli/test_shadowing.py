"""Files of the current folder that have the name of a package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("package", ["tqdm", "yaml", "numpy"])
def test_a_file_of_the_current_folder_shadows_no_package(package: str, tmp_path: Path) -> None:
    (tmp_path / f"{package}.py").write_text("open('EXECUTED', 'w')\n")
    arguments = ["run", "task=gaussian", "norm=adanorm", "scale=smoke", "runs=runs"]
    done = subprocess.run(
        [sys.executable, "-m", "adanorm", *arguments], cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    assert not (tmp_path / "EXECUTED").exists()
