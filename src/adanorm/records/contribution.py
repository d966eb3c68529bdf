"""A contribution: runs made elsewhere, in one file. All of it is checked before anything is written.

The first line is the head: schema, environment and golden losses of the machine that wrote it, and
the SHA-256 of the other lines, which are lines of the store. Nothing is executed: code in the file
is only text.
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
from adanorm.files import as_json, with_checksum, without_checksum, write_files
from adanorm.metrics.by_example import COLUMNS
from adanorm.records import check, store
from adanorm.records.keep import evidence_of
from adanorm.records.reader import MERGED, Record, contributed, record, siblings
from adanorm.records.result import Result

SCHEMA, MOST = 1, 100_000  # of the file's format; the most lines of a file
NORM = re.compile(r"[A-Za-z0-9_+-]{1,100}")  # a norm's name becomes the name of a file
CODE = re.compile(r"code/(?:\w+/)*\w+\.py", re.ASCII)
SHOWN_KEYS = {"commit", "device", "packages", "precision"}  # of an environment


def packed_runs(
    records: Iterable[Record], machine: Mapping[str, Any], golden: Mapping[str, Any]
) -> bytes:
    """Return the bytes of a contribution; `golden` has the machine's golden losses by TASK/NORM."""
    body = b"".join(b"".join(_lines(run).values()) for run in records)
    facts = {"environment": machine, "golden": golden, "content": hashlib.sha256(body).hexdigest()}
    head = json.dumps(with_checksum({"schema": SCHEMA, **facts}), allow_nan=False)
    return check.packed(head.encode() + b"\n" + body)


def _lines(run: Record) -> dict[str, bytes]:
    """Return the lines of a record: first those of the files beside it, its own last."""
    return store.as_lines(run.folder.name, run.contents())


def read_contribution(path: Path, runs: str | None = None) -> tuple[dict[str, Any], list[Record]]:
    """Return a contribution's head and its records; raises ValueError, in one line, if it must not be added.

    Its records are checked like those of runs made here, and their counts per example must give
    their scores. `runs` is the folder of runs in which they would lie.
    """
    if not path.is_file():
        raise ValueError(f"{path}: {'is a folder' if path.is_dir() else 'no such file'}")
    try:
        with path.open("rb") as file:
            return parse_contribution(file.read(check.LARGEST + 1), runs)
    except ValueError as error:
        raise ValueError(f"{path}: {one_line(error)}") from None
    except (KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError(f"{path}: is not what `adanorm contribute` writes") from None


def parse_contribution(
    content: bytes, runs: str | None = None
) -> tuple[dict[str, Any], list[Record]]:
    """Return what `read_contribution` returns, from the bytes of a contribution."""
    text = check.unpacked(content, "gzip") if content.startswith(b"\x1f\x8b") else content
    if len(text) > check.LARGEST or text.count(b"\n") > MOST:
        raise ValueError(f"has more than {check.LARGEST:,} bytes or {MOST:,} lines")
    first, _, body = text.partition(b"\n")
    head = check.json_object("line 1", first)
    if (schema := head.get("schema")) != SCHEMA:
        raise ValueError(
            f"is of schema {schema!s:.9}, not {SCHEMA}: from another version of the suite"
        )
    if without_checksum(head)["content"] != hashlib.sha256(body).hexdigest():
        raise ValueError("its lines have been changed")
    records: dict[Path, Record] = {}
    group, texts = b"", dict[str, str]()
    for number, line in enumerate(body.splitlines(keepends=True), 2):
        try:
            values = check.json_object("its record", line)
            group += line
            if "files" not in values:
                texts |= values
                continue
            result = check.json_object("result.json", values["files"]["result.json"].encode())
            folder = runs_folder(runs) / result["task"] / result["norm"] / values["run"]
            run = check_contributable(Record(folder, store.Line(folder, values, texts)))
            if b"".join(_lines(run).values()) != group or folder in records:
                raise ValueError("it is not what `adanorm keep` writes, or occurs twice")
        except ValueError as error:
            raise ValueError(f"line {number}: {one_line(error)}") from None
        records[folder], group, texts = run, b"", {}
    if group or not records:
        raise ValueError("ends within a record, or has none")
    _check_shown(head["environment"])
    is_finite = [
        type(x) is float and math.isfinite(x) for losses in head["golden"].values() for x in losses
    ]
    if not {*head["golden"]} <= {*golden_pairs(records.values())} or not all(is_finite):
        raise ValueError("has golden losses that are not numbers, or of a norm without a run")
    return head, [*records.values()]


def golden_pairs(records: Iterable[Record]) -> list[str]:
    """Return the TASK/NORM pairs of golden losses: each run's norm, if the suite has it, and LayerNorm."""
    parts = [run.folder.parts for run in records]
    pairs = {(task, norm) for *_, task, run_norm, _ in parts for norm in (run_norm, "layernorm")}
    return [f"{task}/{norm}" for task, norm in sorted(pairs) if norm in choices("norm")]


def check_contributable(run: Record) -> Record:
    """Return a run's record that can be contributed; raises ValueError, with the reason, if it cannot."""
    task, norm, name = run.folder.parts[-3:]
    if not NORM.fullmatch(norm) or len(name) > 60:
        raise ValueError("its norm or name cannot be contributed")
    if task not in choices("task"):
        raise ValueError(f"no task {task!r} here: its code comes first")
    result, contents = evidence_of(run), run.contents()
    check.check(run.folder, run.content, result)
    code = {
        file: hashlib.sha256(x).hexdigest()
        for file, x in contents.items()
        if file not in check.FILES
    }
    if norm not in choices("norm") and not run.identity["norm"].keys() & {"path", "code"}:
        raise ValueError(f"no norm {norm!r} here: its code comes first")
    norm_code = {
        f"code/{file}": digest for file, digest in run.identity["norm"].get("code", {}).items()
    }
    if code != {**norm_code, "result.json": code["result.json"]} or not all(
        map(CODE.fullmatch, norm_code)
    ):
        raise ValueError(
            "its files are not those of a run, or its code is not what its digest names"
        )
    if {*without_checksum(run.values)["files"]} != {*contents} - {*code} or not isinstance(
        result, Result
    ):
        raise ValueError("it is an analysis, or result.json lacks the checksum of a file")
    tokens = yaml.scan(run.text("config.yaml"))
    if any(isinstance(token, yaml.AliasToken | yaml.TagToken) for token in tokens):
        raise ValueError("config.yaml has aliases or tags")
    _check_shown(run.environment, run.values)
    if any(
        isinstance(other.ended, Result) and other.ended.data != result.data
        for other in siblings(run)
    ):
        raise ValueError("its data differ from those of the runs here with the same settings")
    metric = run.identity["task"]["metric"]
    is_scored = result.status == "done" and metric in COLUMNS
    if is_scored and check.COUNTS not in contents:
        raise ValueError(f"it has no {check.COUNTS}: it was made before runs wrote one")
    if is_scored and len(run.counts.get(metric, ())) != len(run.outputs()):
        raise ValueError(f"{check.COUNTS} lacks examples of test.{metric}")
    return run


def _check_shown(environment: Mapping[str, Any], result: Mapping[str, Any] | None = None) -> None:
    """Raise ValueError if an environment lacks one of SHOWN_KEYS, or a text is not printable."""
    texts = [f"{key} {value}" for key, value in dotted({"of": environment, "result": result or {}})]
    if not environment.keys() >= SHOWN_KEYS or not all(map(str.isprintable, texts)):
        raise ValueError(
            f"its environment lacks {', '.join(sorted(SHOWN_KEYS))}, or a text cannot be shown"
        )
    if len(str(environment["device"])) > 200:
        raise ValueError("the name of its device is too long")


def add(head: Mapping[str, Any], records: Iterable[Record], runs: str | None = None) -> Path | None:
    """Add the records that are not here yet as one new folder; return it, or None if nothing is new."""
    root = contributed_folder(runs_folder(runs))
    root.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(root.with_name(f"{root.name}.lock")):
        files: dict[str, bytes] = {}
        for run in (run for run in records if not is_here(run)):
            file = store.file_of(Path(*run.folder.parent.parts[-2:]))
            for name, line in _lines(run).items():
                path = str(store.beside(file, name) if name else file)
                files[path] = files.get(path, b"") + line
        if not files:
            return None
        files["contribution.json"] = as_json(head)
        staging = root / "unfinished"
        shutil.rmtree(staging, ignore_errors=True)  # left by a process that was killed
        try:
            write_files(staging, files)
            # Until the folder has its final name, nothing in it counts.
            number = 1 + max(
                (int(path.name.partition("-")[0]) for path in root.glob(MERGED)), default=0
            )
            return staging.rename(root / f"{number:03}-{head['checksum'][:8]}")
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def is_here(run: Record) -> bool:
    """Return whether the same record is here already, byte for byte."""
    return any(
        other.contents() == run.contents()
        for other in (record(run.folder), *contributed(run.folder))
    )
