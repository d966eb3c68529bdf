"""A run that does not fit onto the disk is refused before it trains."""

from __future__ import annotations

import shutil
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import pytest

from adanorm.config.experiment import Experiment
from adanorm.runs.execute import execute

Usage = namedtuple("Usage", ("total", "used", "free"))


def test_a_run_that_does_not_fit_onto_the_disk_is_refused_before_it_trains(
    smoke: Callable[..., Experiment], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**9, 10**9, 10**6))
    with pytest.raises(ValueError, match=r"1 MB free, the run needs \d\d MB"):
        execute(smoke("task=gaussian", "norm=adanorm"))
    assert not list(tmp_path.rglob("result.json"))
