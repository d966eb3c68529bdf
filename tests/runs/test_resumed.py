"""A run that is taken up under other code, versions or another machine says so in its record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from adanorm.config.compose import compose_experiment
from adanorm.records import reader
from adanorm.records.environment import origin
from adanorm.records.folder import RunFolder
from adanorm.records.result import Result
from adanorm.runs.execute import execute
from adanorm.runs.setup import describe_environment, prepare, start_trainer


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"commit": "0" * 40},
        {"changes": "0" * 64},
        {"numerics_version": 999},
        {"packages": {"torch": "1.0"}},
        {"device": "another processor"},
        {"arithmetic": {"instructions": "DEFAULT"}},
    ],
    ids=str,
)
def test_what_computed_the_starts_of_a_run_is_in_its_record_where_they_differ(
    tmp_path: Path, other: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    run = compose_experiment(["task=gaussian", "norm=adanorm", "scale=smoke", f"runs={tmp_path}"])
    prepared = prepare(run)
    own = origin(describe_environment(run, prepared, processes=1))
    trainer = start_trainer(run, prepared)
    trainer.checkpoints.writers = [{**own, **other}]
    run.folder().mkdir(parents=True)
    trainer.save(RunFolder(run.folder()).checkpoint)
    execute(run)
    result = reader.result(run.folder())
    assert isinstance(result, Result)
    what = next(iter(other), "").replace("_", " ")
    line = f"warning: the run goes on under another {what}; its record says so\n"
    assert (result.computed_by, line in capsys.readouterr().err) == (
        ([{**own, **other}, own], True) if other else (None, False)
    )


def test_a_checkpoint_that_does_not_say_who_wrote_it_is_of_somebody_else(tmp_path: Path) -> None:
    run = compose_experiment(["task=gaussian", "norm=adanorm", "scale=smoke", f"runs={tmp_path}"])
    trainer = start_trainer(run, prepare(run))
    run.folder().mkdir(parents=True)
    trainer.save(RunFolder(run.folder()).checkpoint)
    execute(run)
    result = reader.result(run.folder())
    assert isinstance(result, Result)
    assert result.computed_by is not None
    assert result.computed_by[0] == {}
