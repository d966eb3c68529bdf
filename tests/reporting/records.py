"""Records made by hand, as small as the reader takes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from adanorm.analyses.spec import AnalysisRecord
from adanorm.config.experiment import Experiment


def record(run: Experiment, **result: Any) -> None:
    """Write the result of a run that is done, or what `result` says otherwise."""
    facts = {
        "schema": 1,
        "status": "done",
        "task": run.task.name,
        "norm": run.norm.name,
        "scale": run.scale,
        "seed": run.seed,
        "precision": "fp32",
        "own_data": run.own_data,
        "norm_sites": [],
        "layernorm_sites": [],
        "parameters": 0,
        "norm_parameters": 0,
        "data": {},
    }
    _write(run.folder(), {**facts, **result})


def score(accuracy: float) -> dict[str, Any]:
    """Return what a result says of a run with this accuracy, in validation and in the test."""
    return {"valid": {"accuracy": accuracy}, "test": {"accuracy": accuracy}}


def record_analysis(record: AnalysisRecord, **result: Any) -> None:
    """Write the result of an analysis that is done, or what `result` says otherwise."""
    run = record.experiment
    facts = {
        "schema": 1,
        "status": "done",
        "analysis": record.analysis.name,
        "norm": run.norm.name,
        "seed": run.seed,
        "summary": {},
        "places": {},
    }
    _write(record.folder(), {**facts, **result})


def _write(folder: Path, result: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "result.json").write_text(json.dumps(result))
