"""Files of the current folder that have the name of a package, installed or only tried by some library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from adanorm.config.paths import install_command

PACKAGES = ("typing", "pathlib", "tqdm", "yaml", "numpy", "torch", "hydra", "pydantic", "pandas", "IPython")
STUDY = "title: t\nrows: [adanorm, layernorm]\ncolumns: [gaussian]\nscale: smoke\nseeds: [1]\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("list",),
        ("status", "table4"),
        ("run", "task=gaussian", "norm=adanorm", "scale=smoke", "runs=runs"),
        ("study", "own.yaml", "workers=2", "runs=runs"),
        ("run", "task=gaussian", "scale=smoke", "runs=runs", "gpus=2", "device=cpu"),
    ],
    ids=["list", "status", "run", "study", "torchrun"],
)
def test_a_file_of_the_current_folder_is_imported_by_no_command(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    for package in (*PACKAGES, "ipywidgets", "joblib"):
        (tmp_path / f"{package}.py").write_text(f"open('EXECUTED', 'a').write('{package} ')\n")
    (tmp_path / "own.yaml").write_text(STUDY)
    done = subprocess.run(
        [sys.executable, "-m", "adanorm", *arguments], cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    executed = tmp_path / "EXECUTED"
    assert not executed.exists(), executed.read_text()


def test_what_installs_the_suite_is_a_command_of_this_python_and_a_folder_that_is_there() -> None:
    for extra in ("suite", "cluster"):
        python, *install, requirement = install_command(extra).split()
        assert (python, install) == (sys.executable, ["-m", "pip", "install"])
        folder, _, name = requirement.strip("'").partition("[")
        assert (Path(folder) / "pyproject.toml").is_file()
        assert f"\n{name.removesuffix(']')} = [" in (Path(folder) / "pyproject.toml").read_text()
