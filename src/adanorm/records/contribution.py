"""A contribution: runs made elsewhere, in one file.

Its head and every run are checked before anything is written. The first line is the head: schema,
environment and golden losses of the machine that wrote it, and the SHA-256 of the other lines.
Those are the lines of the runs, as each has them in its folder. Nothing is executed: code in the
file is only text.
"""

import hashlib
import json
import math
import re
import shutil
from collections import defaultdict
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import yaml
from filelock import FileLock

from adanorm.config.errors import one_line
from adanorm.config.paths import choices, contributed_folder, runs_folder
from adanorm.files import (
    Fields,
    Values,
    as_json,
    create_folder,
    with_checksum,
    without_checksum,
    write_files,
)
from adanorm.records import integrity, lines, reader
from adanorm.records.by_example import COLUMNS
from adanorm.records.environment import check_environment
from adanorm.records.evidence import evidence_of
from adanorm.records.lines import once, unchanging
from adanorm.records.reader import Record, contributed, contributions, record
from adanorm.records.result import Result

FOREIGN = "is not what `adanorm contribute` writes"
SCHEMA = 1  # of the file's format
NORM = re.compile(r"[A-Za-z0-9_+-]{1,100}")  # a norm's name becomes the name of a file
LONGEST_NAME = 60  # of who contributes
MOST_OBJECTS = 1 << 19  # and lists, which take much more memory than their text
HERE = "this repository"  # who makes the runs that no contribution brings
SHOWN_KEYS = {"commit", "device", "packages", "precision"}  # of an environment


def packed_runs(
    records: Iterable[Record],
    machine: Fields,
    golden: Fields,
    **author: str,
) -> bytes:
    """Return the bytes of a contribution; `golden` has the machine's golden losses by TASK/NORM.

    `author` has who contributes it (`by`), and the `date`.
    """
    body = _body(records)
    facts = {"environment": machine, "golden": golden, "content": hashlib.sha256(body).hexdigest()}
    facts |= author
    head = json.dumps(with_checksum({"schema": SCHEMA, **facts}), allow_nan=False)
    return integrity.packed(head.encode() + b"\n" + body)


def _body(records: Iterable[Record]) -> bytes:
    return b"".join(run.line.as_text() for run in records if run.line is not None)


@unchanging()
def read_contribution(path: Path, runs: str | None = None) -> tuple[Values, list[Record]]:
    """Return a contribution's head and its records.

    Raises ValueError, in one line, if it must not be added. Its records are checked like those of
    runs made here, and their counts per example must give their scores. `runs` is the folder of
    runs in which they would lie.
    """
    if path.is_dir():
        raise ValueError(f"{path}: is a folder")
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    try:
        with path.open("rb") as file:
            return parse_contribution(file.read(integrity.LARGEST + 1), runs)
    except ValueError as error:
        raise ValueError(f"{path}: {one_line(error)}") from None
    except (KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError(f"{path}: {FOREIGN}") from None


def is_contribution(path: Path) -> bool:
    """Return whether a file is a contribution that may be added."""
    try:
        read_contribution(path)
    except ValueError:
        return False
    return True


def parse_contribution(content: bytes, runs: str | None = None) -> tuple[Values, list[Record]]:
    """Return what `read_contribution` returns, from the bytes of a contribution."""
    is_packed = content.startswith(b"\x1f\x8b")
    text = integrity.unpacked(content, "gzip") if is_packed else content
    if not text:
        raise ValueError("is empty")
    first, _, body = text.partition(b"\n")
    try:
        head = integrity.json_object("line 1", first)
        schema = head["schema"]
    except (ValueError, KeyError):
        raise ValueError(FOREIGN) from None
    if schema != SCHEMA:
        message = f"is of schema {schema!s:.9}, not {SCHEMA}: from another version of the suite"
        raise ValueError(message)
    if without_checksum(head)["content"] != hashlib.sha256(body).hexdigest():
        raise ValueError("its lines have been changed")
    if body.count(b"{") + body.count(b"[") > MOST_OBJECTS:
        raise ValueError(f"has more than {MOST_OBJECTS:,} objects and lists")
    records = _records_in(body, runs_folder(runs))
    _check_shown(head["environment"])
    for key in ("by", "date"):
        if not is_shown(head.get(key, "")):
            raise ValueError(
                f"{key}: must be a text of at most {LONGEST_NAME} characters, in one line,"
                f" and not {HERE!r}"
            )
    losses = list(chain(*head["golden"].values()))
    if not all(isinstance(loss, float) and math.isfinite(loss) for loss in losses):
        raise ValueError("has golden losses that are not numbers")
    if not head["golden"].keys() <= {*golden_pairs(records)}:
        raise ValueError("has golden losses of a norm without a run")
    return head, records


def is_shown(text: object) -> bool:
    """Return whether a name or date can stand in a cell of a table."""
    if not isinstance(text, str) or len(text) > LONGEST_NAME or text == HERE:
        return False
    return text.isprintable() and "|" not in text


def _records_in(body: bytes, runs: Path) -> list[Record]:
    """Return the records in the lines of a contribution.

    Raises ValueError if one must not be added.
    """
    runs_by_folder = {}
    for number, line in enumerate(lines.parse(runs, body), 1):
        try:
            result = integrity.json_object("result.json", line.files["result.json"].encode())
            folder = runs / result["task"] / result["norm"] / line.run
            runs_by_folder[folder] = check_contributable(Record(folder, line))
        except ValueError as error:
            raise ValueError(f"run {number}: {one_line(error)}") from None
    if not runs_by_folder or _body(runs_by_folder.values()) != body:
        raise ValueError("has lines that are not those of ended runs, or a run twice")
    return [*runs_by_folder.values()]


def golden_pairs(records: Iterable[Record]) -> list[str]:
    """Return the TASK/NORM pairs of golden losses: those of the runs, and LayerNorm."""
    pairs = set()
    for run in records:
        task, run_norm, _ = run.folder.parts[-3:]
        for norm in (run_norm, "layernorm"):
            if norm in choices("norm"):
                pairs.add(f"{task}/{norm}")
    return sorted(pairs)


def check_contributable(run: Record) -> Record:
    """Return a run's record that can be contributed.

    Raises ValueError, with the reason, if it cannot.
    """
    task, norm, name = run.folder.parts[-3:]
    if not NORM.fullmatch(norm) or len(name) > 60:
        raise ValueError("its norm or name cannot be contributed")
    if task not in choices("task"):
        raise ValueError(f"no task {task!r} here: its code comes first")
    result = evidence_of(run)
    if norm not in choices("norm") and not run.identity["norm"].keys() & {"path", "code"}:
        raise ValueError(f"no norm {norm!r} here: its code comes first")
    if not isinstance(result, Result):
        raise ValueError("it is an analysis")
    _check_files(run)
    _check_shown(run.environment)
    here = _data_on_record(run.folder.parents[1])
    if here.get(_data_settings(run), result.data) != result.data:
        raise ValueError("its data differ from those of the runs here with the same settings")
    metric = run.identity["task"]["metric"]
    if result.status == "done" and metric in COLUMNS:
        if not run.has(integrity.COUNTS):
            raise ValueError(f"it has no {integrity.COUNTS}: it was made before runs wrote one")
        if len(run.counts.get(metric, ())) != len(run.outputs()):
            raise ValueError(f"{integrity.COUNTS} lacks examples of test.{metric}")
    return run


@once
def _data_on_record(task: Path) -> dict[str, dict[str, str]]:
    """Return the SHA-256 by file of a task's data, by the settings of the data."""
    data: dict[str, dict[str, str]] = {}
    for run in reader.records(task):
        if isinstance(run.ended, Result):
            data.setdefault(_data_settings(run), run.ended.data)
    return data


def _data_settings(run: Record) -> str:
    return json.dumps(run.identity["data"], sort_keys=True)


def _check_files(run: Record) -> None:
    """Raise ValueError if a run has files of no run, or other code than its digest names."""
    contents = run.contents()
    del contents["result.json"]
    digests = {name: integrity.text_digest(content) for name, content in contents.items()}
    code = {f"code/{name}": sha for name, sha in run.identity["norm"].get("code", {}).items()}
    if digests != without_checksum(run.values)["files"] | code:
        raise ValueError("result.json or the digest lacks the checksum of a file")
    for token in yaml.scan(run.text("config.yaml")):
        if isinstance(token, yaml.AliasToken | yaml.TagToken):
            raise ValueError("config.yaml has aliases or tags")


def _check_shown(environment: Fields) -> None:
    """Raise ValueError if an environment lacks one of SHOWN_KEYS, or has a text of no use."""
    if not environment.keys() >= SHOWN_KEYS:
        raise ValueError(f"its environment lacks {', '.join(sorted(SHOWN_KEYS))}")
    check_environment(environment)
    integrity.check_printable(environment=environment)


def add(head: Fields, records: Iterable[Record], runs: str | None = None) -> Path | None:
    """Add the records that are not here yet as one new folder; return it, or None if all are."""
    root = contributed_folder(runs_folder(runs))
    create_folder(root.parent)
    with FileLock(root.with_name(f"{root.name}.lock")):
        files: dict[str, bytes] = defaultdict(bytes)
        for run in records:
            if run.line is not None and not is_here(run):
                task, norm, _ = run.folder.parts[-3:]
                for path, content in run.line.kept_as(lines.file_of(Path(task, norm))).items():
                    files[str(path)] += content
        if not files:
            return None
        staging = root / "unfinished"
        shutil.rmtree(staging, ignore_errors=True)  # left by a process that was killed
        try:
            write_files(staging, files | {"contribution.json": as_json(head)})
            # Until the folder has its final name, nothing in it counts.
            numbers = [number for number, _ in contributions(runs_folder(runs))]
            number = 1 + max(numbers, default=0)
            return staging.rename(root / f"{number:03}-{head['checksum'][:8]}")
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def is_here(run: Record) -> bool:
    """Return whether the same record is here already, byte for byte."""
    contents = run.contents()
    here = (record(run.folder), *contributed(run.folder))
    return any(entry.contents() == contents for entry in here)
