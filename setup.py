"""Puts what the package reads besides its code into a wheel; pyproject.toml says everything else."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SHIPPED = (
    "conf",
    "results/published.csv",
    "results/published-curves",
    "results/baselines.json",
    "results/older-records.txt",
)


class BuildWithConfiguration(build_py):
    """The package with the configuration and the paper's numbers in `adanorm/shipped`."""

    def run(self) -> None:
        """Build as usual, then copy."""
        super().run()
        if self.editable_mode:  # they are read from the checkout
            return
        for name in SHIPPED:
            source, target = Path(name), Path(self.build_lib, "adanorm", "shipped", name)
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, dirs_exist_ok=True)
            else:
                shutil.copy(source, target)


setup(cmdclass={"build_py": BuildWithConfiguration})
