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
from adanorm.records.by_example import as_text
from adanorm.records.by_example import score as score_of
from adanorm.records.integrity import FILES, packed, text_digest
from adanorm.records.lines import RECORD, line_of
from adanorm.records.reader import Record
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
    outputs: Sequence[str] = (),
    files: Mapping[str, bytes] = MappingProxyType({}),
    **result: Any,
) -> None:
    """Write the record of a run that is done, unless `result` says otherwise.

    `rows` are its evaluations; the required metrics are added, and the last row is the best. `counted` has
    the counts of each test example, from which outputs and test scores follow. `tests` are the test scores
    of every evaluation, by name if there are several, for a run that records them.
    """
    contents: dict[str, bytes] = {}
    if counted:
        outputs = [str(counts) for counts in zip(*counted.values(), strict=True)]
        result["test"] = {name: score_of(name, np.array(of)) for name, of in counted.items()}
    text = "".join(f"{output}\n" for output in outputs).encode()
    if text:
        contents["predictions.txt.gz"] = packed(text)
    if counted:
        values = {
            "outputs": text_digest(text),
            "counts": as_text(counted),
        }
        contents["test_counts.json"] = json.dumps(values).encode()
    facts: dict[str, Any] = {
        "schema": 1,
        "status": "done",
        "task": run.task.name,
    }
    facts |= {
        "norm": run.norm.name,
        "scale": run.scale,
        "seed": run.seed,
    }
    facts |= {
        "precision": run.precision,
        "own_data": run.own_data,
        "data": {},
    }
    facts |= {
        "norm_sites": [],
        "layernorm_sites": [],
        "parameters": 0,
        "norm_parameters": 0,
    }
    every = run.training.evaluate_every or 10
    evaluations: list[dict[str, float]] = [
        {"epoch": n, **row, "update": every * n} for n, row in enumerate(rows, 1)
    ]
    if result.get("status", "done") == "done":
        last_row = rows[-1].items()
        last = {key.removeprefix("valid_"): x for key, x in last_row if "valid_" in key}
        test = result.get("test") or {run.task.metric: 50.0}
        selection = {run.task.selection_metric: test.get(run.task.selection_metric, 0.5)}
        valid = {
            **selection,
            **last,
            **(result.get("valid") or result.get("test") or {}),
        }
        evaluations[-1] |= {f"valid_{name}": score for name, score in valid.items()}
        steps = evaluations[-1]["update"]
        facts |= {"best_step": steps, "steps": steps}
        result |= {"valid": valid, "test": test}
    contents["metrics.jsonl"] = _lines(evaluations)
    if tests:
        scores = []
        for row, test in zip(evaluations, tests, strict=True):
            named = test if isinstance(test, dict) else {run.task.metric: test}
            scores.append(
                {
                    "update": row["update"],
                    **{f"test_{n}": x for n, x in named.items()},
                }
            )
        contents["test_metrics.jsonl"] = _lines(scores)
    contents["config.yaml"] = yaml.dump(run.identity, Dumper=Dumper).encode()
    write_record(run.folder(), contents | dict(files), {**facts, **result})


def _lines(rows: Sequence[Mapping[str, Any]]) -> bytes:
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


def write_record(
    folder: Path,
    contents: Mapping[str, bytes],
    result: Mapping[str, Any],
) -> None:
    """Write the line of a record, true or not, with the checksums that it then has."""
    folder.mkdir(parents=True, exist_ok=True)
    ordered = {name: contents[name] for name in FILES if name in contents}
    values = {
        **result,
        "files": {name: text_digest(content) for name, content in ordered.items()},
    }
    ordered["result.json"] = json.dumps(with_checksum(values)).encode()
    line = line_of(folder.name, {**ordered, **contents, **ordered}, folder / RECORD)
    (folder / RECORD).write_bytes(line.as_text())


def put(folder: Path, name: str, content: bytes | None) -> None:
    """Replace a file of a record, or take it out, under true checksums."""
    contents = contents_of(folder) | {name: content or b""}
    if content is None:
        del contents[name]
    write_record(folder, contents, result_of(folder))


def contents_of(folder: Path) -> dict[str, bytes]:
    """Return the files of the record in a folder but for result.json."""
    contents = Record(folder).contents()
    return {name: content for name, content in contents.items() if name != "result.json"}


def result_of(folder: Path) -> dict[str, Any]:
    """Return a record's result without its checksums."""
    values: dict[str, Any] = json.loads(Record(folder).text("result.json"))
    return {key: value for key, value in values.items() if key not in ("checksum", "files")}


def edit(folder: Path, **values: Any) -> None:
    """Give a record's result other values, under true checksums."""
    write_record(folder, contents_of(folder), {**result_of(folder), **values})


def as_older_version(folder: Path) -> None:
    """Lay a record out as files, as versions before lines did."""
    for name, content in Record(folder).contents().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / RECORD).unlink()


def rows_of(text: str) -> list[dict[str, Any]]:
    """Return the rows of a CSV file by column."""
    return [*csv.DictReader(io.StringIO(text))]


def score(accuracy: float) -> dict[str, Any]:
    """Return the scores in the result of a run with this accuracy, in validation and in the test."""
    return {
        "valid": {"accuracy": accuracy},
        "test": {"accuracy": accuracy},
    }


def scored(
    study: str | Study,
    runs: Path,
    scores: Mapping[tuple[str, str], Sequence[float]],
) -> Table:
    """Return a study's table over records of test scores by row and task, one per seed."""
    study = load_study(study) if isinstance(study, str) else study
    grid = study_grid(study, runs=str(runs))
    for address, of_cell in scores.items():
        for run, test in zip(grid[address].runs, of_cell, strict=False):
            record(
                run,
                valid={run.task.selection_metric: test},
                test={run.task.metric: test},
            )
    return Table(study, grid)


def record_analysis(
    record: AnalysisRecord,
    *,
    rows: Sequence[Mapping[str, Any]] = (),
    **result: Any,
) -> None:
    """Write the result of an analysis that is done, unless `result` says otherwise."""
    run = record.experiment
    facts: dict[str, Any] = {
        "schema": 1,
        "status": "done",
        "analysis": record.analysis.name,
    }
    facts |= {
        "norm": run.norm.name,
        "seed": run.seed,
        "summary": {},
        "places": {},
    }
    contents = {"config.yaml": yaml.dump(record.identity, Dumper=Dumper).encode()}
    if rows:
        contents["rows.jsonl"] = _lines(rows)
    write_record(record.folder(), contents, {**facts, **result})
