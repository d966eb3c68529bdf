"""Reading runs back."""

from __future__ import annotations

import gzip
import json
import warnings
from pathlib import Path
from typing import Any

from adanorm.records.folder import SCHEMA

STATUSES = ("done", "diverged", "failed")


def result(folder: Path) -> dict[str, Any] | None:
    """Return the result of a run, or None where it has not ended.

    Warns of, and does not count, a result that cannot be read or has another schema.
    """
    path = folder / "result.json"
    if not path.exists():
        return None
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except ValueError:
        warnings.warn(f"{path} cannot be read and is not counted", stacklevel=2)
        return None
    if found.get("schema") != SCHEMA or found.get("status") not in STATUSES:
        warnings.warn(f"{path} has an unknown schema or status and is not counted", stacklevel=2)
        return None
    return found


def is_made(folder: Path) -> bool:
    """Return whether a run need not be made again: it is done or diverged; a failed one is tried anew."""
    found = result(folder)
    return found is not None and found["status"] != "failed"


def metrics(folder: Path) -> list[dict[str, float]]:
    """Return the rows of a run's metrics.jsonl, one an evaluation; none if it broke off before the first."""
    return _rows(folder / "metrics.jsonl")


def observations(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of an analysis' rows.jsonl, one an observation."""
    return _rows(folder / "rows.jsonl")


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def outputs(folder: Path) -> list[str]:
    """Return the test set's outputs, one an example."""
    return gzip.decompress((folder / "predictions.txt.gz").read_bytes()).decode().splitlines()
