"""Checks that a record is whole and belongs to its folder. A record that fails is named and not counted."""

import gzip
import hashlib
import io
import json
import math
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adanorm.config.yaml_file import read_foreign_yaml
from adanorm.files import digest_of, sha256
from adanorm.metrics.table import METRICS
from adanorm.records.result import AnalysisResult, Ended, Result

if TYPE_CHECKING:
    from adanorm.metrics.by_example import Counts

ROWS: dict[type[Ended], str] = {Result: "metrics.jsonl", AnalysisResult: "rows.jsonl"}
PATCH = "changes.patch"  # the uncommitted changes of the code
OUTPUTS = "predictions.txt.gz"  # of the model on the test set
COUNTS = "test_counts.json"  # what the metrics count in each test example
# The files of a record beside result.json and its code.
FILES = (
    "config.yaml",
    "environment.json",
    PATCH,
    OUTPUTS,
    COUNTS,
    "test_metrics.jsonl",
    *ROWS.values(),
)
SEED = re.compile(r"^seed: (\d{1,10})$", re.MULTILINE)  # a line of config.yaml
LARGEST, LONGEST = 1 << 28, 1 << 20  # bytes of an unpacked file, and of one JSON object
NAME = re.compile(
    r"(?:dry-)?(?:([a-z]+)-)?seed([0-9]+)-([0-9a-f]{8})"
)  # a folder's: scale, seed, digest


def check(folder: Path, content: Callable[[str], bytes | None], result: Ended) -> None:
    """Raise ValueError, with the reason in a few words, if a result must not be counted.

    `content` returns the bytes of a file of the folder by its name, or None. The reasons: a file
    has changed since it was written, the folder is another run's, a score is impossible, or rows
    are missing.
    """
    content = cache(
        content
    )  # each file is read once, so that the bytes parsed are the bytes hashed
    for name, digest in (result.files or {}).items():
        if (data := content(name)) is None:
            raise ValueError(f"{name} is missing")
        if hashlib.sha256(data).hexdigest() != digest:
            raise ValueError(f"{name} has been changed")
    identity = settings_of((content("config.yaml") or b"").decode())
    environment_of(content("environment.json") or b"{}")
    name = ROWS[type(result)]
    rows = json_rows(name, content(name) or b"")
    _check_identity(folder, identity, result)
    if isinstance(result, AnalysisResult) and result.observations not in (None, len(rows)):
        raise ValueError(f"rows.jsonl has {len(rows)} rows, not {result.observations}")
    if isinstance(result, Result) and result.status == "done":
        if (counts := content(COUNTS)) is not None:
            counts_of(counts, outputs_digest(unpacked(content(OUTPUTS) or b"")), result.test or {})
        _check_scores(identity, result)
        _check_rows(rows, result)


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each of a record's FILES that exists, by name."""
    return {name: sha256(folder / name) for name in FILES if (folder / name).is_file()}


def settings_of(text: str) -> dict[str, Any]:
    """Return the settings in the text of config.yaml; raises ValueError if they are not a mapping.

    Records of a series differ in their seed alone: the rest is parsed once, so do not change it.
    """
    seed = SEED.search(text)
    if seed is None:
        return _settings_of(text)
    settings = _settings_of(SEED.sub("seed: 0", text))
    return {**settings, "seed": int(seed[1])}


@lru_cache(maxsize=4096)
def _settings_of(text: str) -> dict[str, Any]:
    settings = read_foreign_yaml(text) or {}
    if not isinstance(settings, dict):
        raise ValueError("config.yaml: has no settings")
    return settings


def json_object(name: str, content: bytes) -> dict[str, Any]:
    """Return the JSON object in `content`; raises ValueError with `name` if it is none or too long."""
    try:
        values = json.loads(content) if len(content) <= LONGEST else None
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise ValueError(f"{name}: not a JSON object")
    return values


def json_rows(name: str, content: bytes) -> list[dict[str, Any]]:
    """Return the rows of a file of JSON lines; raises ValueError naming a line that is not one."""
    return [
        json_object(f"{name}, line {i}", line) for i, line in enumerate(content.splitlines(), 1)
    ]


def environment_of(content: bytes) -> dict[str, Any]:
    """Return the values of environment.json; ValueError if it or a part is not a JSON object."""
    values = json_object("environment.json", content)
    if not all(isinstance(values.get(key, {}), dict) for key in ("packages", "arithmetic")):
        raise ValueError("environment.json: packages or arithmetic is not a JSON object")
    return values


def packed(text: bytes) -> bytes:
    """Return a text as a gzip file, such as the test set's outputs; the same text gives the same bytes."""
    return gzip.compress(text, mtime=0)


def unpacked(content: bytes, name: str = OUTPUTS) -> bytes:
    """Return the text of a gzip file; raises ValueError if it is empty, broken or too large."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            text = file.read(LARGEST + 1)
        if not content or len(text) > LARGEST:
            raise EOFError("it is empty, or too large")
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{name}: cannot be read ({error})") from None
    return text


def outputs_digest(text: bytes) -> str:
    """Return the SHA-256 of test outputs; counts and the store's lines name outputs by it."""
    return hashlib.sha256(text).hexdigest()


def counts_of(content: bytes, outputs: str, scores: Mapping[str, float]) -> dict[str, "Counts"]:
    """Return the counts of the test examples by metric, each (E examples, columns).

    Raises ValueError if the counted outputs do not have the digest `outputs`, or if the counts do
    not give these scores.
    """
    from adanorm.metrics import by_example

    try:
        values = json.loads(content)
        digest, texts = values["outputs"], values["counts"].items()
        counts = {metric: by_example.from_text(metric, columns) for metric, columns in texts}
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{COUNTS}: has no counts of test examples") from None
    if digest != outputs:
        raise ValueError(f"{COUNTS} is of other outputs")
    for metric, examples in counts.items():
        score = by_example.score(metric, examples)
        if not math.isclose(score, scores.get(metric, math.nan), rel_tol=1e-6, abs_tol=1e-6):
            raise ValueError(
                f"test.{metric} is {scores.get(metric)}, its examples make {score:.6g}"
            )
    return counts


def _check_identity(folder: Path, identity: Mapping[str, Any], result: Ended) -> None:
    """Raise ValueError if the result contradicts the name of its folder or its config.yaml."""
    if (match := NAME.fullmatch(folder.name)) is None:
        raise ValueError("its folder does not have the name of a record")
    scale, seed, digest = match.groups()
    if digest_of(dict(identity)) != digest:
        raise ValueError("config.yaml has another digest than its folder")
    if folder.name.startswith("dry-") != ("updates" in identity):
        raise ValueError("its folder does not say whether it is of a dry run")
    task, norm, data = sections = [
        identity.get(section) or {} for section in ("task", "norm", "data")
    ]
    if not all(isinstance(section, dict) for section in sections):
        raise ValueError("config.yaml: task, norm or data is not a section")
    of_folder = {"seed": int(seed), "norm": folder.parent.name}
    if scale is not None:
        of_folder |= {"scale": scale, "task": folder.parent.parent.name}
    of_config = {key: identity.get(key) for key in ("scale", "seed", "precision")}
    of_config |= {
        "task": task.get("name"),
        "norm": norm.get("name"),
        "own_data": data.get("source") == "own",
    }
    for settings, source in ((of_folder, "its folder is of"), (of_config, "its config.yaml says")):
        for key, value in settings.items():
            # An analysis need not have all of these.
            if value is not None and getattr(result, key, None) not in (None, value):
                raise ValueError(f"{key} is {getattr(result, key)!r}, {source} {value!r}")


def _check_scores(identity: Mapping[str, Any], result: Result) -> None:
    task = identity.get("task") or {}
    test_metric = task.get("metric")
    selection = task.get("selected_by") or test_metric
    for split, scores, metric in (
        ("valid", result.valid, selection),
        ("test", result.test, test_metric),
    ):
        if not isinstance(metric, str):
            raise ValueError("config.yaml names no metric")
        if metric not in (scores or {}):
            raise ValueError(f"{split} lacks {metric}")
        for name, score in (scores or {}).items():
            # sacrebleu's perfect score is 100.00000000000004
            if score < 0 or (name in METRICS and score > METRICS[name].largest * (1 + 1e-9)):
                raise ValueError(f"{split}.{name} is {score}, which is impossible")


def _check_rows(rows: Sequence[Mapping[str, Any]], result: Result) -> None:
    """Raise ValueError if the last or best row is missing, or the best row's scores are not the result's."""
    last = rows[-1].get("update") if rows else None
    if last != result.steps:
        raise ValueError(f"metrics.jsonl ends at update {last}, the run at {result.steps}")
    best = next((row for row in rows if row.get("update") == result.best_step), None)
    if best is None:
        raise ValueError(f"metrics.jsonl has no row of the best step, {result.best_step}")
    scores = {name: best.get(f"valid_{name}") for name in result.valid or {}}
    if scores != result.valid and not result.averaged:
        raise ValueError("valid is not what metrics.jsonl has at the best step")
