"""No change of the code may orphan a record: its folder's name follows from its config.yaml alone."""

from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from adanorm.analyses.spec import AnalysisRecord, load_analysis
from adanorm.config.experiment import Experiment
from adanorm.config.paths import ANALYSES, RUNS
from adanorm.config.values import digest_of
from adanorm.records import reader

# Settings that an identity leaves out, with values of no importance.
ASIDE: dict[str, Any] = {
    "device": "cpu",
    "threads": 3,
    "checkpoint_minutes": 7.0,
    "runs": None,
    "logger": {"name": "wandb"},
    "cost": {"cpu_hours": 9.0, "cuda_hours": 9.0},
}


@cache
def recorded(folder: Path) -> dict[Path, dict[str, Any]]:
    identities = {record.folder: record.identity for record in reader.records(folder)}
    if not identities:
        pytest.skip(f"no records in {folder}")
    return identities


def experiment_of(identity: dict[str, Any]) -> Experiment:
    """Return the experiment of a run's identity; a required setting that the identity lacks was null."""
    values: dict[str, Any] = deepcopy({**identity, **ASIDE})
    tags = {values["data"]["reader"], values["model"]["name"]}
    for _ in range(20):
        try:
            return Experiment.model_validate(values)
        except ValidationError as error:
            missing = [problem["loc"] for problem in error.errors() if problem["type"] == "missing"]
            if not missing:
                raise
            for loc in missing:
                *sections, key = (str(part) for part in loc if part not in tags)
                section = values
                for name in sections:
                    section = section[name]
                section[key] = None
    raise AssertionError("what is missing does not end")


def test_the_digest_of_every_recorded_run_is_in_its_folders_name() -> None:
    assert len({identity["model"]["name"] for identity in recorded(RUNS).values()}) > 3
    for folder, identity in recorded(RUNS).items():
        run = experiment_of(identity)
        assert run.identity == identity, folder
        assert run.folder() == folder
        assert folder.name.endswith(f"-{digest_of(identity)}")


def test_the_digest_of_every_recorded_analysis_is_in_its_folders_name() -> None:
    for folder, identity in recorded(ANALYSES).items():
        assert folder.name.endswith(f"-{digest_of(identity)}")
        if "task" not in identity:  # nothing was trained
            continue
        settings = dict(identity["analysis"])
        run = experiment_of({key: value for key, value in identity.items() if key != "analysis"})
        name = settings.pop("name")
        options = {key: str(value) for key, value in settings.items() if key != "evaluate"}
        record = AnalysisRecord(load_analysis(name, options), run)
        assert record.identity == identity, folder
        assert record.folder() == folder
