"""Reading records back; what is broken is said in a warning, once, and not counted."""

from __future__ import annotations

import gzip
import json
import warnings
import zlib
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import ValidationError

from adanorm.config.experiment import Experiment
from adanorm.records.check import FILES, NAME, problem, read_rows
from adanorm.records.older import is_listed
from adanorm.records.result import AnalysisResult, Ended, Result
from adanorm.records.sealed import CHECKSUM, checksum_of

R = TypeVar("R", bound=Ended)
SCHEMA = 1
EVIDENCE_SEEDS = 100  # what a setting was chosen by is no evidence of what it is worth


def result(folder: Path, *, dry_run: bool = False) -> Result | None:
    """Return the result of a run, or None where it has not ended; of a dry run only where that is asked for.

    Warns of, and does not count, a result that cannot be read, has another schema, or is not whole.
    """
    found = _read(folder, Result)
    return found if found is None or (found.dry_run is not None) == dry_run else None


def analysis_result(folder: Path) -> AnalysisResult | None:
    """Return the result of an analysis, or None where it has not ended; warns as `result` does."""
    return _read(folder, AnalysisResult)


def is_complete(folder: Path) -> bool:
    """Return whether a run or an analysis need not be run again: what failed or is broken is."""
    values = _values(folder / "result.json")
    kind = AnalysisResult if isinstance(values, dict) and "analysis" in values else Result
    found = _read(folder, kind)
    return found is not None and found.is_complete


def check_replaceable(folder: Path) -> None:
    """Raise ValueError where a record must not be written over.

    A later version of the suite has written it, or a folder has the name of one of its files.
    """
    path = folder / "result.json"
    for name in (path.name, *FILES, "checkpoint.pt", "weights.safetensors"):
        if (folder / name).is_dir() and not (folder / name).is_symlink():
            raise ValueError(f"{folder / name}: a folder has the name of a record's file; move it away")
    values = _values(path)
    schema = values.get("schema") if isinstance(values, dict) else None
    if isinstance(schema, int | float) and schema > SCHEMA:
        raise ValueError(f"{path}: of schema {schema}, from a later version of the suite: left as it is")


def _read(folder: Path, kind: type[R]) -> R | None:
    files = [folder / name for name in ("result.json", *FILES)]
    if not files[0].exists():
        return None
    # Checked once, unless something has changed.
    stats = [path.stat() if path.exists() else None for path in files]
    state = tuple(stat and (stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size) for stat in stats)
    return cast(R | None, _checked(folder, kind, state))


@lru_cache(maxsize=4096)
def _checked(folder: Path, kind: type[Ended], state: object) -> Ended | None:
    """Return the result in a folder, or None after a warning, once whoever asks, of why it does not count."""
    found, wrong = _found(folder, kind)
    if wrong is not None:
        warnings.warn(f"{folder / 'result.json'} is not counted: {wrong}", stacklevel=1)
    return found


def _found(folder: Path, kind: type[Ended]) -> tuple[Ended | None, str | None]:
    """Return the result in a folder, or None and why it does not count."""
    values = _values(folder / "result.json")
    if not isinstance(values, dict):
        return None, "it is no JSON object"
    if values.get("schema") != SCHEMA:
        return None, f"schema {values.get('schema')!r} is not {SCHEMA}"
    checksum = values.pop(CHECKSUM, None)
    if checksum is not None and checksum != checksum_of(values):
        return None, "it is not what was written"
    try:
        found = kind.model_validate(values)
    except ValidationError as error:
        wrong = error.errors()[0]
        return None, f"{'.'.join(map(str, wrong['loc'])) or 'it'}: {wrong['msg'].lower()}"
    reason = problem(folder, found)
    if reason is None and checksum is None and not is_listed(folder):
        reason = "it has no checksum, and is none of the older records that lack one"
    return (None, reason) if reason else (found, None)


def _values(path: Path) -> Any:
    """Return what a JSON file says, None where it says nothing."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def environment(folder: Path) -> dict[str, Any]:
    """Return what a run was computed with: commit, packages, device; empty where nothing says."""
    path = folder / "environment.json"
    found: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return found


def metrics(folder: Path) -> list[dict[str, float]]:
    """Return the rows of a run's metrics.jsonl, one an evaluation; none if it broke off before the first.

    Raises ValueError naming the file and a line that is none.
    """
    return read_rows(folder / "metrics.jsonl")


def test_metrics(folder: Path) -> list[dict[str, float]]:
    """Return the rows of a run's test_metrics.jsonl, one an evaluation, none if test scores were not tracked.

    Raises ValueError as `metrics` does.
    """
    return read_rows(folder / "test_metrics.jsonl")


def observations(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of an analysis' rows.jsonl, one an observation; raises ValueError as `metrics` does."""
    return read_rows(folder / "rows.jsonl")


def outputs(folder: Path, *, examples: int | None = None) -> list[str]:
    """Return the test set's outputs, one an example.

    Raises ValueError, naming the file, where they cannot be read or are not of so many examples.
    """
    path = folder / "predictions.txt.gz"
    try:
        if not (packed := path.read_bytes()):
            raise EOFError("it is empty")
        # Only a line feed ends a line: a translation may hold what else ends one for Python.
        found = gzip.decompress(packed).decode().split("\n")[:-1]
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: cannot be read ({error})") from None
    if examples not in (None, len(found)):
        raise ValueError(f"{path}: has {len(found):,} lines, the test set {examples:,} examples")
    return found


def runs_on_record(run: Experiment) -> list[Experiment]:
    """Return the runs that differ from a run in nothing but their seed and have a folder, by seed.

    Seeds above EVIDENCE_SEEDS are of runs that settings are chosen by: they are alike among themselves.
    """
    siblings = run.folder().parent.glob(f"{run.scale}-seed*-*")
    seeds = {int(named[2]) for path in siblings if (named := NAME.fullmatch(path.name))}
    alike = (
        run.model_copy(update={"seed": seed})
        for seed in sorted(seeds)
        if (seed > EVIDENCE_SEEDS) == (run.seed > EVIDENCE_SEEDS)
    )
    return [other for other in alike if other.folder().exists()]
