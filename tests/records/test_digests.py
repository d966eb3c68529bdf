"""No change of the code may orphan a record: its folder's name follows from its config.yaml alone."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from adanorm.analyses.spec import AnalysisRecord, analysis_names, load_analysis
from adanorm.config.compose import compose_experiment
from adanorm.config.digest import digest_of
from adanorm.config.experiment import Experiment
from adanorm.config.model_sections import MODELS
from adanorm.config.paths import ANALYSES, RUNS
from adanorm.records import reader

# What is left out of an identity has no bearing on it, whatever it is.
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
    found = {record.folder: record.identity for record in reader.records(folder)}
    if not found:
        pytest.skip(f"no records in {folder}")
    return found


def experiment_of(identity: dict[str, Any]) -> Experiment:
    """The experiment of a run's identity: what a section must be given and the identity lacks was null."""
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
    for folder, identity in recorded(RUNS).items():
        run = experiment_of(identity)
        assert run.identity() == identity, folder
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
        given = {key: str(value) for key, value in settings.items() if key != "evaluate"}
        record = AnalysisRecord(load_analysis(name, given), run)
        assert record.identity() == identity, folder
        assert record.folder() == folder


def test_every_model_and_analysis_that_is_recorded_is_looked_at() -> None:
    """The tests above would pass over nothing."""
    models = {identity["model"]["name"] for identity in recorded(RUNS).values()}
    assert models <= {str(section.model_fields["name"].annotation.__args__[0]) for section in MODELS}  # type: ignore[union-attr]
    assert len(models) > 3
    names = {identity["analysis"]["name"] for identity in recorded(ANALYSES).values()}
    assert names <= set(analysis_names())


def test_a_changed_setting_is_another_run_and_a_place_is_not(tmp_path: Path) -> None:
    base = compose_experiment(["task=rt", "norm=rmsnorm", f"runs={tmp_path}"])
    for override in (
        "training.lr=0.002",
        "seed=2",
        "norm.params.eps=1e-3",
        "norm.placement=final",
        "precision=bf16",
        "precision=tf32",
    ):
        assert compose_experiment(["task=rt", "norm=rmsnorm", override]).digest() != base.digest()
    for override in (
        "device=cpu",
        "threads=2",
        "norm.backend=eager",
        "data.mirror=elsewhere",
        "logger=wandb",
        "training.lr=1e-3",
    ):
        assert compose_experiment(["task=rt", "norm=rmsnorm", override]).digest() == base.digest()
