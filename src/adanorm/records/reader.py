"""Reading records back."""

from __future__ import annotations

import gzip
import json
import warnings
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from adanorm.config.experiment import Experiment
from adanorm.records.result import AnalysisResult, Ended, Result

R = TypeVar("R", bound=Ended)


def result(folder: Path) -> Result | None:
    """Return the result of a run, or None where it has not ended.

    Warns of, and does not count, a result that cannot be read or has another schema.
    """
    return _read(folder, Result)


def analysis_result(folder: Path) -> AnalysisResult | None:
    """Return the result of an analysis, or None where it has not ended; warns as `result` does."""
    return _read(folder, AnalysisResult)


def is_complete(folder: Path) -> bool:
    """Return whether a run or an analysis need not be run again: what failed is tried again."""
    found = _read(folder, Ended)
    return found is not None and found.is_complete


def _read(folder: Path, kind: type[R]) -> R | None:
    path = folder / "result.json"
    if not path.exists():
        return None
    try:
        return kind.model_validate_json(path.read_bytes())
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"])) or "it"
        warnings.warn(f"{path} is not counted: {where}: {problem['msg'].lower()}", stacklevel=3)
        return None


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


def runs_on_record(run: Experiment) -> list[Experiment]:
    """Return the runs that differ from a run in nothing but their seed and have a folder, by seed."""
    siblings = run.folder().parent.glob(f"{run.scale}-seed*-*")
    seeds = {int(path.name.split("-seed")[1].split("-")[0]) for path in siblings}
    alike = (run.model_copy(update={"seed": seed}) for seed in sorted(seeds))
    return [other for other in alike if other.folder().exists()]
