"""Checks that a record is whole and belongs to its run. One that fails is named and not counted."""

import gzip
import hashlib
import io
import json
import math
import re
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from adanorm.config.titles import METRICS
from adanorm.config.values import digest_of, read_foreign_yaml
from adanorm.files import Fields, Values
from adanorm.records.environment import check_environment
from adanorm.records.result import AnalysisResult, Ended, Result

if TYPE_CHECKING:
    from adanorm.records.by_example import Counts

ROWS: dict[type[Ended], str] = {Result: "metrics.jsonl", AnalysisResult: "rows.jsonl"}
PATCH = "changes.patch"  # the uncommitted changes of the code
OUTPUTS = "predictions.txt.gz"  # of the model on the test set
COUNTS = "test_counts.json"  # what the metrics count in each test example
TEST_ROWS = "test_metrics.jsonl"  # test scores at each evaluation; they choose nothing
# The files of a record beside result.json and its code, in their order.
FILES = ("config.yaml", "environment.json", PATCH, OUTPUTS, COUNTS, TEST_ROWS, *ROWS.values())
COLUMN = re.compile(r"[a-z][a-z0-9_]{0,60}")  # of a row
SEED = re.compile(r"^seed: (\d{1,10})$", re.MULTILINE)  # a line of config.yaml
LARGEST, LONGEST = 1 << 28, 1 << 20  # bytes of an unpacked file, and of one JSON object
# A run's name: scale, seed, digest.
NAME = re.compile(r"(?:dry-)?(?:([a-z]+)-)?seed(0|[1-9][0-9]*)-([0-9a-f]{8})")


def check_record(folder: Path, content: Callable[[str], bytes | None], result: Ended) -> None:
    """Raise ValueError, with the reason in a few words, if a result must not be counted.

    `content` returns the bytes of a file of the record by its name, or None. The reasons: a file
    has changed since it was written, the folder is another run's, a score is impossible, or rows
    are missing.
    """
    content = cache(
        content
    )  # each file is read once, so that the bytes parsed are the bytes hashed
    for name, digest in (result.files or {}).items():
        data = content(name)
        if data is None:
            raise ValueError(f"{name} is missing")
        if hashlib.sha256(data).hexdigest() != digest:
            raise ValueError(f"{name} has been changed")
    identity = settings_of((content("config.yaml") or b"").decode())
    environment_of(content("environment.json") or b"{}")
    rows_name = ROWS[type(result)]
    rows = json_rows(rows_name, content(rows_name) or b"")
    test_rows = json_rows(TEST_ROWS, content(TEST_ROWS) or b"")
    _check_identity(folder, identity, result)
    if isinstance(result, AnalysisResult) and result.observations not in (None, len(rows)):
        raise ValueError(f"rows.jsonl has {len(rows)} rows, not {result.observations}")
    if isinstance(result, Result) and result.status == "done":
        counts = content(COUNTS)
        if counts is not None:
            outputs = unpacked(content(OUTPUTS) or b"")
            counts_of(counts, text_digest(outputs), result.test or {})
        test_metric, selection_metric = metrics_of(identity)
        _check_split("valid", result.valid or {}, selection_metric)
        _check_split("test", result.test or {}, test_metric)
        _check_rows(rows, result)
        # Another machine may have tested the weights of an evaluation on the first.
        if test_rows and not result.computed_by:
            _check_best("test", result.test or {}, TEST_ROWS, test_rows, result)
    check_rows(rows_name, rows)
    check_rows(TEST_ROWS, test_rows)


def settings_of(text: str) -> Values:
    """Return the settings in the text of config.yaml; raises ValueError if they are not a mapping.

    Records of a series differ in their seed alone: the rest is parsed once, so do not change it.
    """
    seed = SEED.search(text)
    if seed is None:
        return _settings_of(text)
    settings = _settings_of(SEED.sub("seed: 0", text))
    return {**settings, "seed": int(seed[1])}


@lru_cache(maxsize=4096)
def _settings_of(text: str) -> Values:
    settings = read_foreign_yaml(text) or {}
    if not isinstance(settings, dict):
        raise ValueError("config.yaml: has no settings")
    return settings


def json_object(name: str, content: bytes) -> Values:
    """Return the JSON object in `content`.

    Raises ValueError with `name` if it is none or too long.
    """
    values = None
    if len(content) <= LONGEST:
        with suppress(ValueError, RecursionError):
            values = json.loads(content)
    if not isinstance(values, dict):
        raise ValueError(f"{name}: not a JSON object")
    return values


def json_rows(name: str, content: bytes) -> list[Values]:
    """Return the rows of a file of JSON lines; raises ValueError naming a line that is not one."""
    rows = enumerate(content.splitlines(), 1)
    return [json_object(f"{name}, line {number}", row) for number, row in rows]


def check_rows(name: str, rows: Sequence[Fields]) -> None:
    """Raise ValueError if rows are no curve: `name` is that of the file that has them.

    A row has the number of its update, larger than the last one's, and columns of numbers that are
    finite and not negative. Only an analysis has `values`, numbers of any sign by place.
    """
    last_update = 0
    for number, row in enumerate(rows, 1):
        where = f"{name}, line {number}"
        for column, value in row.items():
            if name == ROWS[AnalysisResult] and column == "values":
                _check_values(where, value)
            else:
                _check_number(where, column, value)
        update = row.get("update")
        if not isinstance(update, int) or update <= last_update:
            raise ValueError(f"{where}: update is {update!r:.40}, after {last_update}")
        last_update = update


def _check_number(where: str, column: str, value: object) -> None:
    """Raise ValueError if a column of a row cannot have a value."""
    if not COLUMN.fullmatch(column):
        raise ValueError(f"{where}: {column!a:.40} is no column")
    split, _, metric = column.partition("_")
    largest = sys.float_info.max
    if split in ("valid", "test") and metric in METRICS:
        largest = min(largest, _largest(metric))
    if not (is_number(value) and 0 <= value <= largest):
        raise ValueError(f"{where}: {column} is {value!a:.40}, which is impossible")


def _check_values(where: str, values: object) -> None:
    """Raise ValueError unless these are numbers of an analysis by place and quantity.

    Null stands for a number that was not finite.
    """
    places = values.values() if isinstance(values, dict) else [None]
    for quantities in places:
        numbers = quantities.values() if isinstance(quantities, dict) else [""]
        for number in numbers:
            is_finite = is_number(number) and abs(number) <= sys.float_info.max
            if number is not None and not is_finite:
                raise ValueError(f"{where}: values are no numbers by place")


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value of JSON is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _largest(metric: str) -> float:
    """Return the largest score of a metric; sacrebleu's perfect one is 100.00000000000004."""
    return METRICS[metric].largest * (1 + 1e-9)


def check_printable(**parts: object) -> None:
    """Raise ValueError, naming the part, if a text at any depth of it has control characters."""
    for part, values in parts.items():
        unchecked = [values]
        while unchecked:
            value = unchecked.pop()
            if isinstance(value, Mapping):
                unchecked += [*value, *value.values()]
            elif isinstance(value, list):
                unchecked += value
            elif not str(value).isprintable():
                raise ValueError(f"a text of its {part} cannot be shown")


def environment_of(content: bytes) -> Values:
    """Return the values of environment.json; raises ValueError if they are no environment."""
    values = json_object("environment.json", content)
    check_environment(values)
    return values


def packed(text: bytes) -> bytes:
    """Return a text as a gzip file, such as the test set's outputs.

    The same text gives the same bytes.
    """
    return gzip.compress(text, mtime=0)


def unpacked(content: bytes, name: str = OUTPUTS) -> bytes:
    """Return the text of a gzip file; raises ValueError if it is empty, broken or too large."""
    unzip = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    with suppress(zlib.error):
        text = unzip.decompress(content, LONGEST)
        if unzip.eof and not unzip.unused_data:
            return text
    # It is long, more than one gzip file, or none.
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            text = file.read(LARGEST + 1)
        if not content or len(text) > LARGEST:
            raise EOFError("it is empty, or too large")
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{name}: cannot be read ({error})") from None
    return text


def text_digest(text: bytes) -> str:
    """Return the SHA-256 of outputs or counts; lines, counts and comparisons name them by it."""
    return hashlib.sha256(text).hexdigest()


def counts_of(content: bytes, outputs: str, scores: Mapping[str, float]) -> dict[str, "Counts"]:
    """Return the counts of the test examples by metric, each (E examples, columns).

    Raises ValueError if the counted outputs do not have the digest `outputs`, or if the counts do
    not give these scores.
    """
    from adanorm.records import by_example

    try:
        values = json.loads(content)
        digest = values["outputs"]
        texts = values["counts"].items()
        counts = {metric: by_example.from_text(metric, columns) for metric, columns in texts}
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{COUNTS}: has no counts of test examples") from None
    if digest != outputs:
        raise ValueError(f"{COUNTS} is of other outputs")
    for metric, examples in counts.items():
        score = by_example.score(metric, examples)
        on_record = scores.get(metric, math.nan)
        if not math.isclose(score, on_record, rel_tol=1e-6, abs_tol=1e-6):
            raise ValueError(
                f"test.{metric} is {scores.get(metric)}, its examples make {score:.6g}"
            )
    return counts


def _check_identity(folder: Path, identity: Fields, result: Ended) -> None:
    """Raise ValueError if the result contradicts the name of its folder or its config.yaml."""
    match = NAME.fullmatch(folder.name)
    if match is None:
        raise ValueError("its folder does not have the name of a record")
    scale, seed, digest = match.groups()
    if digest_of(dict(identity)) != digest:
        raise ValueError("config.yaml has another digest than its folder")
    if folder.name.startswith("dry-") != ("updates" in identity):
        raise ValueError("its folder does not say whether it is of a dry run")
    sections = [identity.get(section) or {} for section in ("task", "norm", "data")]
    if not all(isinstance(section, dict) for section in sections):
        raise ValueError("config.yaml: task, norm or data is not a section")
    task, norm, data = sections
    in_path = {"seed": int(seed), "norm": folder.parent.name}
    if scale is not None:
        in_path |= {"scale": scale, "task": folder.parent.parent.name}
    in_config = {key: identity.get(key) for key in ("scale", "seed", "precision")}
    in_config |= {"task": task.get("name"), "norm": norm.get("name")}
    in_config |= {"own_data": data.get("source") == "own"}
    _check_agreement(result, in_path, "its folder is of")
    _check_agreement(result, in_config, "its config.yaml says")


def _check_agreement(result: Ended, settings: Fields, source: str) -> None:
    """Raise ValueError if the result has another value of a setting.

    An analysis need not have all.
    """
    for key, setting in settings.items():
        value = getattr(result, key, None)
        if setting is not None and value not in (None, setting):
            raise ValueError(f"{key} is {value!r}, {source} {setting!r}")


def metrics_of(identity: Fields) -> tuple[str, str]:
    """Return the metrics of test and selection; raises ValueError if config.yaml names none."""
    task = identity.get("task") or {}
    test_metric: Any = task.get("metric")
    selection_metric: Any = task.get("selected_by") or test_metric
    for metric in (test_metric, selection_metric):
        if not isinstance(metric, str) or metric not in METRICS:
            raise ValueError("config.yaml names no metric")
    return test_metric, selection_metric


def _check_split(split: str, scores: Mapping[str, float], metric: str) -> None:
    if metric not in scores:
        raise ValueError(f"{split} lacks {metric}")
    for name, score in scores.items():
        largest = _largest(name) if name in METRICS else math.inf
        if not 0 <= score <= largest:
            raise ValueError(f"{split}.{name} is {score}, which is impossible")


def _check_rows(rows: Sequence[Fields], result: Result) -> None:
    """Raise ValueError if the last or best row is missing, or if the best row has other scores."""
    last = rows[-1].get("update") if rows else None
    if last != result.steps:
        raise ValueError(f"metrics.jsonl ends at update {last}, the run at {result.steps}")
    _check_best("valid", result.valid or {}, ROWS[Result], rows, result)


def _check_best(
    split: str,
    scores: Mapping[str, float],
    file: str,
    rows: Sequence[Fields],
    result: Result,
) -> None:
    """Raise ValueError unless the row of the best step in a file has the scores of the result.

    The scores of averaged weights stand in no row.
    """
    best = next((row for row in rows if row.get("update") == result.best_step), None)
    if best is None:
        raise ValueError(f"{file} has no row of the best step, {result.best_step}")
    in_row = {name: best.get(f"{split}_{name}") for name in scores}
    if in_row != scores and not result.averaged:
        raise ValueError(f"{split} is not what {file} has at the best step")
