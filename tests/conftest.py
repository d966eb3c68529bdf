from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from tests import commands

if (
    TYPE_CHECKING
):  # the process that hands out tests to workers runs none: it is spared seconds of imports
    from adanorm.config.experiment import Experiment

# A machine that others use too is slow at times: that is no fault of the tested code.
hypothesis.settings.register_profile(
    "suite", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("suite")


@pytest.fixture
def mirror() -> Path:
    """The folder of real data, where there is one."""
    from adanorm.config.compose import compose_experiment
    from adanorm.data.fetch import mirrors_of

    mirrors = mirrors_of(compose_experiment([]).data)
    if not mirrors or not Path(mirrors[0]).is_dir():
        pytest.skip(
            "no mirror folder of the real data (ADANORM_MIRROR, or data.mirrors in conf/run.yaml)"
        )
    return Path(mirrors[0])


@pytest.fixture
def smoke(tmp_path: Path) -> Callable[..., Experiment]:
    """Makes experiments of scale smoke whose records land in a temporary folder."""
    from adanorm.config.compose import compose_experiment

    def make(*overrides: str) -> Experiment:
        return compose_experiment(
            ["task=rt", "scale=smoke", f"runs={tmp_path / 'runs'}", *overrides]
        )

    return make


def pytest_configure(config: pytest.Config) -> None:
    gc.set_threshold(100_000)  # by default, collections look through all imports again and again
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # hundreds of processes load the same modules
    sys.dont_write_bytecode = False
    is_worker = hasattr(config, "workerinput")
    os.environ["OMP_NUM_THREADS"] = "1"
    if is_worker or not config.getoption("numprocesses", None):
        import torch

        torch.set_num_threads(1)
        if not torch.cuda.is_available():
            os.environ["TRITON_INTERPRET"] = "1"  # before anything imports triton
    if not is_worker:  # one server for all workers
        stack = ExitStack()
        stack.enter_context(commands.server())
        config.add_cleanup(stack.close)


# The parameters of tests that need each package.
NEEDED = {
    "fairseq": r"\b(de-en|en-de|en-vi|translation)\b",
    "numba": r"\bfused\b",
    "wandb": r"\bwandb\b",
}


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that needs a package that is not installed, or that ADANORM_WITHOUT names.

    A test needs the packages of its marker `needs`, and those of its parameters: of a translation
    task, a fused norm or a logger.
    """
    needed = [package for mark in item.iter_markers("needs") for package in mark.args]
    params = item.callspec.params.values() if hasattr(item, "callspec") else ()
    text = " ".join(
        [item.nodeid.partition("[")[2], *(value for value in params if isinstance(value, str))]
    )
    needed += [package for package, pattern in NEEDED.items() if re.search(pattern, text)]
    for package in needed:
        if find_spec(package) is None:
            pytest.skip(f"needs {package}, which is not installed here")


def pytest_xdist_auto_num_workers() -> int:
    """Return one worker more than there are cores: about a third of the tests' time is waiting."""
    return len(os.sched_getaffinity(0)) + 1


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest tests first, so that no worker begins one when the others have ended."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_collection_finish() -> None:
    gc.freeze()  # imports and collected tests stay: garbage collections need not look at them


Command = Callable[..., subprocess.CompletedProcess[str]]
Smoke = Callable[..., "Experiment"]  # the type of the fixture `smoke`


@pytest.fixture
def command() -> Command:
    """Runs `adanorm <name> <arguments>` from the project's root, as a fork that need not import."""
    return partial(commands.run, "adanorm")


@pytest.fixture
def _quick_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets forks, which need not import, do the runs that a study starts."""
    folders = [str(Path(__file__).parent / "quick_start"), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, folders)))
