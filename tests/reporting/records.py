"""Records made by hand, as small as the reader takes them."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import yaml

from adanorm.analyses.spec import AnalysisRecord
from adanorm.config.compose import cached_experiment
from adanorm.config.experiment import Experiment
from adanorm.files import with_checksum
from adanorm.metrics.by_example import score as score_of
from adanorm.records.check import digests
from adanorm.records.folder import RunFolder
from adanorm.records.result import Result
from adanorm.reporting.tables.table import Table
from adanorm.studies.study import Study, load_study, study_grid

Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # the faster one, if it is there


def run_in(folder: Path, *settings: str, seed: int = 1) -> Experiment:
    """Return a run whose record lies in a folder."""
    return cached_experiment(settings, runs=str(folder)).model_copy(update={"seed": seed})


def files_in(folder: Path) -> dict[str, bytes]:
    """Return the contents of all files in a folder and below it, except locks."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def record(
    run: Experiment,
    *,
    rows: Sequence[dict[str, float]] = ({},),
    counted: Mapping[str, Sequence[Sequence[float]]] | None = None,
    tests: Sequence[float | dict[str, float]] = (),
    **result: Any,
) -> None:
    """Write the record of a run that is done, unless `result` says otherwise.

    `rows` are its evaluations; the required metrics are added, and the last row is the best.
    `counted` has the counts of each test example, from which outputs and test scores follow.
    `tests` are the test scores of every evaluation, by name if there are several, for a run that
    records them.
    """
    folder = run.folder()
    folder.mkdir(parents=True, exist_ok=True)
    if counted:
        examples = [str(rows) for rows in zip(*counted.values(), strict=True)]
        RunFolder(folder).write_outputs(examples, counted)
        result["test"] = {metric: score_of(metric, np.array(of)) for metric, of in counted.items()}
    facts: dict[str, Any] = {
        "schema": 1,
        "status": "done",
        "task": run.task.name,
        "norm": run.norm.name,
    }
    facts |= {
        "scale": run.scale,
        "seed": run.seed,
        "precision": run.precision,
        "own_data": run.own_data,
    }
    facts |= {
        "norm_sites": [],
        "layernorm_sites": [],
        "parameters": 0,
        "norm_parameters": 0,
        "data": {},
    }
    every = run.training.evaluate_every or 10
    evaluations: list[dict[str, float]] = [
        {"epoch": n, **row, "update": every * n} for n, row in enumerate(rows, 1)
    ]
    if result.get("status", "done") == "done":
        last = {
            key.removeprefix("valid_"): value for key, value in rows[-1].items() if "valid_" in key
        }
        test = result.get("test") or {run.task.metric: 50.0}
        selection = {run.task.selection_metric: test.get(run.task.selection_metric, 0.5)}
        valid = {**selection, **last, **(result.get("valid") or result.get("test") or {})}
        evaluations[-1] |= {f"valid_{name}": score for name, score in valid.items()}
        steps = evaluations[-1]["update"]
        facts |= {"best_step": steps, "steps": steps}
        result |= {"valid": valid, "test": test}
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in evaluations))
    if tests:
        named = [of if isinstance(of, dict) else {run.task.metric: of} for of in tests]
        pairs = zip(evaluations, named, strict=True)
        scores = [
            {"update": row["update"], **{f"test_{n}": x for n, x in of.items()}}
            for row, of in pairs
        ]
        RunFolder(folder).write_rows(scores, to=RunFolder(folder).test_rows)
    _write(folder, run.identity, {**facts, **result})


def record_as_run(
    run: Experiment,
    outputs: list[str],
    files: Mapping[str, bytes] = MappingProxyType({}),
    **facts: Any,
) -> None:
    """Write a record as runs write it, with the test set's outputs and perhaps other files."""
    record(run, **facts)
    folder = RunFolder(run.folder())
    result = Result.model_validate_json((folder.path / "result.json").read_bytes())
    (folder.path / "result.json").unlink()
    with folder.recording(run.identity, {"commit": "0" * 40}, {}) as recording:
        recording.result = result
        folder.write_outputs(outputs, {})
        for name, content in files.items():
            (folder.path / name).write_bytes(content)


def rows_of(text: str) -> list[dict[str, Any]]:
    """Return the rows of a CSV file by column."""
    return [*csv.DictReader(io.StringIO(text))]


def score(accuracy: float) -> dict[str, Any]:
    """Return the scores in the result of a run with this accuracy, in validation and in the test."""
    return {"valid": {"accuracy": accuracy}, "test": {"accuracy": accuracy}}


def scored(
    study: str | Study, runs: Path, scores: Mapping[tuple[str, str], Sequence[float]]
) -> Table:
    """Return a study's table over records of test scores by row and task, one per seed."""
    study = load_study(study) if isinstance(study, str) else study
    grid = study_grid(study, runs=str(runs))
    for address, of_cell in scores.items():
        for run, test in zip(grid[address].runs, of_cell, strict=False):
            record(run, valid={run.task.selection_metric: test}, test={run.task.metric: test})
    return Table(study, grid)


def record_analysis(record: AnalysisRecord, **result: Any) -> None:
    """Write the result of an analysis that is done, unless `result` says otherwise."""
    run = record.experiment
    facts: dict[str, Any] = {"schema": 1, "status": "done", "analysis": record.analysis.name}
    facts |= {"norm": run.norm.name, "seed": run.seed, "summary": {}, "places": {}}
    _write(record.folder(), record.identity, {**facts, **result})


def _write(folder: Path, identity: dict[str, Any], result: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(yaml.dump(identity, Dumper=Dumper))
    seal(folder, result)


def result_of(folder: Path) -> dict[str, Any]:
    """Return a record's result without its checksums."""
    values: dict[str, Any] = json.loads((folder / "result.json").read_bytes())
    return {key: value for key, value in values.items() if key not in ("checksum", "files")}


def seal(folder: Path, result: dict[str, Any]) -> None:
    """Write a result, true or not, with the checksums that its record then has."""
    values = {**result, "files": digests(folder)}
    (folder / "result.json").write_text(json.dumps(with_checksum(values)))
