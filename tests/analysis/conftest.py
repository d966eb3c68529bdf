"""What tests of analyses share: tiny runs of scale smoke, observed or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from adanorm import analyses
from adanorm.analyses import Record
from adanorm.compose import experiment

Records = Callable[..., Record]


@pytest.fixture
def record(tmp_path: Path) -> Records:
    """Makes the record of an analysis of a smoke run, in a temporary folder."""

    def make(
        name: str, *overrides: str, given: Mapping[str, str] | None = None, runs: Path = tmp_path
    ) -> Record:
        settings = {"steps": "6", "every": "2", "scale": "smoke", **(given or {})}
        return Record(analyses.load(name, settings), experiment(["scale=smoke", f"runs={runs}", *overrides]))

    return make
