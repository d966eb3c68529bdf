"""Whether a record is whole and is what its folder says; one that is not is named, and counts nowhere."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import math
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adanorm.config.yaml_file import read_yaml
from adanorm.files import digest_of, sha256
from adanorm.metrics.table import METRICS
from adanorm.records.result import AnalysisResult, Ended, Result

if TYPE_CHECKING:
    from adanorm.metrics.by_example import Counts

ROWS: dict[type[Ended], str] = {Result: "metrics.jsonl", AnalysisResult: "rows.jsonl"}
PATCH = "changes.patch"  # what the code differed from its commit by
OUTPUTS = "predictions.txt.gz"  # the test set's
COUNTS = "test_counts.json"  # of each test example
# beside the result
FILES = ("config.yaml", "environment.json", PATCH, OUTPUTS, COUNTS, "test_metrics.jsonl", *ROWS.values())
LARGEST, LONGEST = 1 << 28, 1 << 20  # bytes of a file, once unpacked, and of what is one JSON object
NAME = re.compile(r"(?:dry-)?(?:([a-z]+)-)?seed([0-9]+)-([0-9a-f]{8})")  # of a folder: scale, seed, digest


def check(folder: Path, content: Callable[[str], bytes | None], result: Ended) -> None:
    """Raise ValueError, which says why in a few words, where a result does not count.

    `content` returns the bytes of a file of the folder by its name. A file may have changed since it was
    written, the folder may be another run's, a score may be impossible, rows may lack.
    """
    content = cache(content)  # what is parsed is what was hashed, read once
    for name, written in (result.files or {}).items():
        if (stored := content(name)) is None:
            raise ValueError(f"{name} is missing")
        if hashlib.sha256(stored).hexdigest() != written:
            raise ValueError(f"{name} is not what was written")
    identity = settings_of((content("config.yaml") or b"").decode())
    environment_of(content("environment.json") or b"{}")
    name = ROWS[type(result)]
    rows = rows_of(name, content(name) or b"")
    _check_identity(folder, identity, result)
    if isinstance(result, AnalysisResult) and result.observations not in (None, len(rows)):
        raise ValueError(f"rows.jsonl has {len(rows)} rows, not {result.observations}")
    if isinstance(result, Result) and result.status == "done":
        if (counts := content(COUNTS)) is not None:
            counts_of(counts, outputs_digest(unpacked(content(OUTPUTS) or b"")), result.test or {})
        _check_scores(identity, result)
        _check_rows(rows, result)


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of a record's files by name, without its result's."""
    return {name: sha256(folder / name) for name in FILES if (folder / name).is_file()}


def settings_of(text: str) -> dict[str, Any]:
    """Return the settings that config.yaml has; raises ValueError where it has none."""
    settings = read_yaml(text) or {}
    if not isinstance(settings, dict):
        raise ValueError("config.yaml: no settings")
    return settings


def json_object(name: str, content: bytes) -> dict[str, Any]:
    """Return the JSON object in a text; raises ValueError, which names the text, where there is none."""
    try:
        values = json.loads(content) if len(content) <= LONGEST else None
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise ValueError(f"{name}: no JSON object")
    return values


def rows_of(name: str, content: bytes) -> list[dict[str, Any]]:
    """Return the rows of a file of JSON lines; raises ValueError, which names a line that is none."""
    return [json_object(f"{name}, line {i}", line) for i, line in enumerate(content.splitlines(), 1)]


def environment_of(content: bytes) -> dict[str, Any]:
    """Return what environment.json says; raises ValueError where it cannot be read."""
    values = json_object("environment.json", content)
    if not all(isinstance(values.get(key, {}), dict) for key in ("packages", "arithmetic")):
        raise ValueError("environment.json: packages or arithmetic is no JSON object")
    return values


def packed(text: bytes) -> bytes:
    """Return the test set's outputs as a record has them; the same text gives the same bytes."""
    return gzip.compress(text, mtime=0)


def unpacked(content: bytes, name: str = OUTPUTS) -> bytes:
    """Return the text of a packed file, such as the test set's outputs; ValueError where there is none."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            text = file.read(LARGEST + 1)
        if not content or len(text) > LARGEST:
            raise EOFError("it is empty, or too large")
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{name}: cannot be read ({error})") from None
    return text


def outputs_digest(text: bytes) -> str:
    """Return the SHA-256 by which counts and lines of the store name outputs."""
    return hashlib.sha256(text).hexdigest()


def counts_of(content: bytes, outputs: str, scores: Mapping[str, float]) -> dict[str, Counts]:
    """Return what was counted of each test example, by metric.

    Raises ValueError where other outputs were counted than those with the digest `outputs`, or where the
    counts do not make these scores.
    """
    from adanorm.metrics import by_example

    try:
        values = json.loads(content)
        of, texts = values["outputs"], values["counts"].items()
        counts = {metric: by_example.from_text(metric, columns) for metric, columns in texts}
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{COUNTS}: no counts of test examples") from None
    if of != outputs:
        raise ValueError(f"{COUNTS} is of other outputs")
    for metric, counted in counts.items():
        score = by_example.score(metric, counted)
        if not math.isclose(score, scores.get(metric, math.nan), rel_tol=1e-6, abs_tol=1e-6):
            raise ValueError(f"test.{metric} is {scores.get(metric)}, its examples make {score:.6g}")
    return counts


def _check_identity(folder: Path, identity: Mapping[str, Any], result: Ended) -> None:
    """Raise ValueError where the result is not of what its folder is named for, or of its config.yaml."""
    named = NAME.fullmatch(folder.name)
    if named is None:
        raise ValueError("its folder does not have the name of a record")
    scale, seed, digest = named.groups()
    if digest_of(dict(identity)) != digest:
        raise ValueError("config.yaml has another digest than its folder")
    if folder.name.startswith("dry-") != ("updates" in identity):
        raise ValueError("its folder does not say whether it is of a dry run")
    task, norm, data = sections = [identity.get(section) or {} for section in ("task", "norm", "data")]
    if not all(isinstance(section, dict) for section in sections):
        raise ValueError("config.yaml: task, norm or data is no section")
    of_folder = {"seed": int(seed), "norm": folder.parent.name}
    if scale is not None:
        of_folder |= {"scale": scale, "task": folder.parent.parent.name}
    of_config = {key: identity.get(key) for key in ("scale", "seed", "precision")}
    of_config |= {"task": task.get("name"), "norm": norm.get("name"), "own_data": data.get("source") == "own"}
    for wanted, says in ((of_folder, "its folder is of"), (of_config, "its config.yaml says")):
        for key, value in wanted.items():
            # Not all is said of every analysis.
            if value is not None and getattr(result, key, None) not in (None, value):
                raise ValueError(f"{key} is {getattr(result, key)!r}, {says} {value!r}")


def _check_scores(identity: Mapping[str, Any], result: Result) -> None:
    target = identity.get("task") or {}
    metric = target.get("metric")
    selection = target.get("selected_by") or metric
    for split, scores, asked in (("valid", result.valid, selection), ("test", result.test, metric)):
        if not isinstance(asked, str):
            raise ValueError("config.yaml names no metric")
        if asked not in (scores or {}):
            raise ValueError(f"{split} lacks {asked}")
        for name, score in (scores or {}).items():
            # sacrebleu's perfect score is 100.00000000000004
            if score < 0 or (name in METRICS and score > METRICS[name].largest * (1 + 1e-9)):
                raise ValueError(f"{split}.{name} is {score}, which cannot be")


def _check_rows(rows: Sequence[Mapping[str, Any]], result: Result) -> None:
    """Raise ValueError where a row is missing, one per evaluation, or the best is not the result's."""
    last = rows[-1].get("update") if rows else None
    if last != result.steps:
        raise ValueError(f"metrics.jsonl ends at update {last}, the run at {result.steps}")
    best = next((row for row in rows if row.get("update") == result.best_step), None)
    if best is None:
        raise ValueError(f"metrics.jsonl has no row of the best step, {result.best_step}")
    chosen = {name: best.get(f"valid_{name}") for name in result.valid or {}}
    if chosen != result.valid and not result.averaged:
        raise ValueError("valid is not what metrics.jsonl has at the best step")
