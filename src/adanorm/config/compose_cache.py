"""Configurations composed before: Hydra takes a tenth of a second for each, and a table has hundreds."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from adanorm.config.compose import compose_experiment
from adanorm.config.experiment import Experiment
from adanorm.config.outside_norms import outside_norms
from adanorm.config.paths import CONF, PACKAGE, PROJECT, choices
from adanorm.config.yaml_file import read_yaml_file
from adanorm.files import write_whole

FOLDER = PROJECT / "data" / "composed"


def cached_experiment(overrides: Sequence[str], *, runs: str | None = None) -> Experiment:
    """Return compose_experiment(overrides), from a file if it was composed before from this conf/ and code.

    `runs` is the folder of the records. Raises ValueError as composing does.
    """
    return Experiment.model_validate({**_values(tuple(overrides)), "runs": runs})


def tasks_of_kind(kind: str) -> list[str]:
    """Return the names of the tasks of a kind, sorted."""
    return [task for task in choices("task") if cached_experiment([f"task={task}"]).task.kind == kind]


@cache
def papers_sources(task: str) -> frozenset[str]:
    """Return the data sources that a task's numbers of the paper may be of: its own, and those of presets."""
    own = cached_experiment([f"task={task}", "scale=paper"]).data.source
    presets = (read_yaml_file(CONF / "preset" / f"{name}.yaml") for name in choices("preset"))
    return frozenset((own, *(preset.get("data", {}).get("source", own) for preset in presets)))


@cache
def _values(overrides: tuple[str, ...]) -> dict[str, Any]:
    path = _folder() / f"{hashlib.sha256(json.dumps(overrides).encode()).hexdigest()[:32]}.json"
    with suppress(OSError, ValueError, KeyError, TypeError):  # what cannot be read is composed again
        kept = json.loads(path.read_text("utf-8"))
        if kept["checksum"] == _checksum(overrides, kept["values"]):
            return dict(kept["values"])
    values = compose_experiment(overrides).model_dump(mode="json")
    with suppress(OSError):  # a folder that cannot be written costs time, nothing else
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {"checksum": _checksum(overrides, values), "values": values}
        write_whole(path, json.dumps(content).encode())
    return values


def _checksum(overrides: tuple[str, ...], values: dict[str, Any]) -> str:
    """Return the SHA-256 of a configuration and what it was composed of."""
    return hashlib.sha256(json.dumps([overrides, values], sort_keys=True).encode()).hexdigest()


@cache
def _folder() -> Path:
    """Return the folder of what was composed from this conf/ and code; those of others are removed."""
    digest = hashlib.sha256()
    for path in [*sorted(CONF.rglob("*.yaml")), *sorted(PACKAGE.rglob("*.py"))]:
        digest.update(os.path.relpath(path, PACKAGE).encode() + b"\0" + path.read_bytes())
    digest.update(" ".join(outside_norms()).encode())
    folder = FOLDER / digest.hexdigest()[:32]
    for other in FOLDER.glob("*"):
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)
    return folder
