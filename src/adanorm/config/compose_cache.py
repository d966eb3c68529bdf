"""Configurations composed before: Hydra takes a tenth of a second for each, and a table has hundreds."""

from __future__ import annotations

import atexit
import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from adanorm.config.compose import compose_experiment
from adanorm.config.experiment import Experiment
from adanorm.config.outside_norms import outside_norms
from adanorm.config.paths import CONF, PROJECT, choices
from adanorm.files import write_whole

KEPT = PROJECT / "data" / "composed.json"


def cached_experiment(overrides: Sequence[str], *, runs: str | None = None) -> Experiment:
    """Return compose_experiment(overrides), from an earlier process if conf/ has not changed since.

    `runs` is the folder of the records. Raises ValueError as composing does.
    """
    key = json.dumps(list(overrides))
    known = _known()
    if key not in known:
        known[key] = compose_experiment(overrides).model_dump(mode="json")
        _keep_at_exit()
    return Experiment.model_validate({**known[key], "runs": runs})


def tasks_of_kind(kind: str) -> list[str]:
    """Return the names of the tasks of a kind, sorted."""
    return [task for task in choices("task") if cached_experiment([f"task={task}"]).task.kind == kind]


@cache
def _conf() -> str:
    """Return the digest of everything that composing reads, and of what it becomes."""
    digest = hashlib.sha256()
    files = [*sorted(CONF.rglob("*.yaml")), *sorted((PROJECT / "src" / "adanorm").rglob("*.py"))]
    for path in files:
        digest.update(str(path.relative_to(PROJECT)).encode() + b"\0" + path.read_bytes())
    digest.update(" ".join(outside_norms()).encode())
    return digest.hexdigest()


@cache
def _known() -> dict[str, dict[str, Any]]:
    """Return what was composed of this conf/, by overrides."""
    try:
        found = json.loads(KEPT.read_text())
        return dict(found["experiments"]) if found["conf"] == _conf() else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}  # it can be had again


@cache
def _keep_at_exit() -> None:
    """Write what is known when this process ends: once, and only where something was composed."""
    atexit.register(_keep)


def _keep() -> None:
    # A folder that cannot be written costs time, nothing else.
    with suppress(OSError):
        KEPT.parent.mkdir(exist_ok=True)
        write_whole(KEPT, json.dumps({"conf": _conf(), "experiments": _known()}).encode())
