"""A contribution: runs made elsewhere, in one file that is checked whole before anything is written.

Its first line is the head: schema, environment and golden losses of the machine that wrote it, and the
SHA-256 of the other lines, which are those of the store. Nothing in it is executed: code is text.
"""

import hashlib
import json
import math
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock

from adanorm.config.errors import one_line
from adanorm.config.paths import choices, contributed_folder, runs_folder
from adanorm.config.yaml_file import dotted
from adanorm.files import as_json, whole, with_checksum, write_files
from adanorm.metrics.by_example import COLUMNS
from adanorm.records import check, store
from adanorm.records.keep import evidence_of
from adanorm.records.reader import MERGED, Record, alike, contributed, record
from adanorm.records.result import Result

SCHEMA, MOST = 1, 100_000  # of a file, and its lines
NORM = re.compile(r"[A-Za-z0-9_+-]{1,100}")  # it becomes the name of a file
CODE = re.compile(r"code/(?:\w+/)*\w+\.py", re.ASCII)
SHOWN = {"commit", "device", "packages", "precision"}  # of an environment


def written(records: Iterable[Record], environment: Mapping[str, Any], golden: Mapping[str, Any]) -> bytes:
    """Return the bytes of a contribution; `golden` has losses by TASK/NORM."""
    body = b"".join(b"".join(_lines(one).values()) for one in records)
    facts = {"environment": environment, "golden": golden, "content": hashlib.sha256(body).hexdigest()}
    head = json.dumps(with_checksum({"schema": SCHEMA, **facts}), allow_nan=False)
    return check.packed(head.encode() + b"\n" + body)


def _lines(one: Record) -> dict[str, bytes]:
    """Return the lines of a record, its own last."""
    return store.as_lines(one.folder.name, one.contents())


def read(path: Path, runs: str | None = None) -> tuple[dict[str, Any], list[Record]]:
    """Return what a contribution's head says, and its records; ValueError, in one line, if it does not count.

    Its records are checked as those that ran here, and must make their scores from what is counted of each
    example; `runs` is the folder of runs that they would lie in.
    """
    if not path.is_file():
        raise ValueError(f"{path}: {'is a folder' if path.is_dir() else 'no such file'}")
    try:
        with path.open("rb") as file:
            return parsed(file.read(check.LARGEST + 1), runs)
    except ValueError as error:
        raise ValueError(f"{path}: {one_line(error)}") from None
    except (KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError(f"{path}: is not what `adanorm contribute` writes") from None


def parsed(content: bytes, runs: str | None = None) -> tuple[dict[str, Any], list[Record]]:
    """Return what `read` does, from a contribution's bytes."""
    text = check.unpacked(content, "gzip") if content.startswith(b"\x1f\x8b") else content
    if len(text) > check.LARGEST or text.count(b"\n") > MOST:
        raise ValueError(f"has more than {check.LARGEST:,} bytes or {MOST:,} lines")
    first, _, body = text.partition(b"\n")
    head = check.json_object("line 1", first)
    if (schema := head.get("schema")) != SCHEMA:
        raise ValueError(f"is of schema {schema!s:.9}, not {SCHEMA}: from another version of the suite")
    if whole(head)["content"] != hashlib.sha256(body).hexdigest():
        raise ValueError("its lines are not what was written")
    records: dict[Path, Record] = {}
    group, texts = b"", dict[str, str]()
    for number, line in enumerate(body.splitlines(keepends=True), 2):
        try:
            values = check.json_object("its record", line)
            group += line
            if "files" not in values:
                texts |= values
                continue
            said = check.json_object("result.json", values["files"]["result.json"].encode())
            folder = runs_folder(runs) / said["task"] / said["norm"] / values["run"]
            one = checked(Record(folder, store.Line(folder, values, texts)))
            if b"".join(_lines(one).values()) != group or folder in records:
                raise ValueError("it is not what `adanorm keep` writes, or is there twice")
        except ValueError as error:
            raise ValueError(f"line {number}: {one_line(error)}") from None
        records[folder], group, texts = one, b"", {}
    if group or not records:
        raise ValueError("ends within a record, or has none")
    _check_shown(head["environment"])
    pairs = {*golden_pairs(records.values())}
    numbers = [type(loss) is float and math.isfinite(loss) for of in head["golden"].values() for loss in of]
    if not {*head["golden"]} <= pairs or not all(numbers):
        raise ValueError("has golden losses that are no numbers, or of a norm without a run")
    return head, [*records.values()]


def golden_pairs(records: Iterable[Record]) -> list[str]:
    """Return what golden losses are of, TASK/NORM: each run's norm that is the suite's, and LayerNorm."""
    parts = [one.folder.parts for one in records]
    pairs = {(task, norm) for *_, task, own, _ in parts for norm in (own, "layernorm")}
    return [f"{task}/{norm}" for task, norm in sorted(pairs) if norm in choices("norm")]


def checked(one: Record) -> Record:
    """Return a record that can be contributed; raises ValueError where it is not whole, or no run's."""
    task, norm, name = one.folder.parts[-3:]
    if not NORM.fullmatch(norm) or len(name) > 60:
        raise ValueError("its norm or name cannot be contributed")
    if task not in choices("task"):
        raise ValueError(f"no task {task!r} here: its code comes first")
    result, contents = evidence_of(one), one.contents()
    check.check(one.folder, one.content, result)
    code = {name: hashlib.sha256(of).hexdigest() for name, of in contents.items() if name not in check.FILES}
    if norm not in choices("norm") and not one.identity["norm"].keys() & {"path", "code"}:
        raise ValueError(f"no norm {norm!r} here: its code comes first")
    named = {f"code/{name}": digest for name, digest in one.identity["norm"].get("code", {}).items()}
    if code != {**named, "result.json": code["result.json"]} or not all(map(CODE.fullmatch, named)):
        raise ValueError("its files are not those of a run, or its code is not what its digest names")
    if {*whole(one.values)["files"]} != {*contents} - {*code} or not isinstance(result, Result):
        raise ValueError("it is an analysis, or result.json has not the checksum of every file")
    tokens = yaml.scan(one.text("config.yaml"))
    if any(isinstance(token, yaml.AliasToken | yaml.TagToken) for token in tokens):
        raise ValueError("config.yaml has aliases or tags")
    _check_shown(one.environment, one.values)
    if any(isinstance(other.ended, Result) and other.ended.data != result.data for other in alike(one)):
        raise ValueError("its data differ from those of the runs here with the same settings")
    metric = one.identity["task"]["metric"]
    is_scored = result.status == "done" and metric in COLUMNS
    if is_scored and check.COUNTS not in contents:
        raise ValueError(f"it has no {check.COUNTS}: it was made before runs wrote one")
    if is_scored and len(one.counts.get(metric, ())) != len(one.outputs()):
        raise ValueError(f"{check.COUNTS} lacks examples of test.{metric}")
    return one


def _check_shown(environment: Mapping[str, Any], result: Mapping[str, Any] | None = None) -> None:
    """Raise ValueError where an environment lacks what is shown of it, or a text cannot be shown."""
    texts = [f"{key} {value}" for key, value in dotted({"of": environment, "result": result or {}})]
    if not environment.keys() >= SHOWN or not all(map(str.isprintable, texts)):
        raise ValueError(f"its environment lacks {', '.join(sorted(SHOWN))}, or a text cannot be shown")
    if len(str(environment["device"])) > 200:
        raise ValueError("the name of its device is too long")


def add(head: Mapping[str, Any], records: Iterable[Record], runs: str | None = None) -> Path | None:
    """Add the records that are not here yet as one folder; return it, or None where nothing is new.

    The folder is renamed into its place once it is whole: before that nothing of it counts.
    """
    root = contributed_folder(runs_folder(runs))
    root.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(root.with_name(f"{root.name}.lock")):
        files: dict[str, bytes] = {}
        for one in (one for one in records if not is_here(one)):
            file = store.file_of(Path(*one.folder.parent.parts[-2:]))
            for name, line in _lines(one).items():
                path = str(store.beside(file, name) if name else file)
                files[path] = files.get(path, b"") + line
        if not files:
            return None
        files["contribution.json"] = as_json(head)
        staging = root / "unfinished"
        shutil.rmtree(staging, ignore_errors=True)  # of a process that was killed
        try:
            write_files(staging, files)
            number = 1 + max((int(path.name.partition("-")[0]) for path in root.glob(MERGED)), default=0)
            return staging.rename(root / f"{number:03}-{head['checksum'][:8]}")
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def is_here(one: Record) -> bool:
    """Return whether a record is here already, to the byte."""
    return any(other.contents() == one.contents() for other in (record(one.folder), *contributed(one.folder)))
