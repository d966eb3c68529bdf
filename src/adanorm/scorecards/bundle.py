"""A scorecard as one file that others can check: its card, records, the norm's source and what was installed.

A zip of `manifest.json`, the SHA-256 of every other member; `card.json`; `source/`; `constraints.txt`;
`comparisons/`, by test examples; and `runs/<task>/<norm>/<run>/`. Reading one runs none of its code and
writes nothing but records, by names that cannot leave the folder they are written to.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from adanorm.config.compose import compose_experiment
from adanorm.config.paths import SHIPPED
from adanorm.files import write_whole
from adanorm.records import reader
from adanorm.records.check import FILES
from adanorm.records.comparisons import comparison_text, read_comparison
from adanorm.scorecards.card import Card, Column
from adanorm.verdicts.evidence import evidence

MANIFEST, CARD, SOURCE, LOCK, RUNS = "manifest.json", "card.json", "source", "constraints.txt", "runs"
COMPARISONS = "comparisons"
SCHEMA = 1
MOST_BYTES, MOST_MEMBERS = 64 << 20, 20_000  # unpacked; a scorecard has a few megabytes
LONGEST = 300  # characters of a member's name
_NAME = re.compile(r"\w[\w.+=-]*(?:/\w[\w.+=-]*)*")  # no part begins with a dot, none is empty
_DATE = (1980, 1, 1, 0, 0, 0)  # the same content gives the same bytes
_LINK = 0o120000


def export(card: Card, runs: str, path: Path) -> int:
    """Write a finished scorecard with its records to a file, and return how many files it has."""
    members = {CARD: card.model_dump_json(by_alias=True, indent=1).encode()}
    lock = SHIPPED / "constraints.txt"
    if lock.is_file():
        members[LOCK] = lock.read_bytes()
    code = compose_experiment([f"norm={card.norm}"]).norm.code
    members |= {f"{SOURCE}/{name}": content for name, content in code.items()}
    norms = [card.norm, *card.against]
    for column in card.columns:
        found = evidence(column.task, column.scale, runs=runs, norms=norms).norms
        for norm in norms:
            for run in found[norm].runs:
                members |= _record(run.folder(), Path(runs))
        for other in card.against:
            sides = found[other].runs, found[card.norm].runs
            if all(sides) and (compared := read_comparison(sides[0][0], sides[1][0])) is not None:
                members[comparison_name(column, other)] = comparison_text(compared)
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(members.items())}
    manifest = json.dumps({"schema": SCHEMA, "files": digests}, indent=1).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, _packed({MANIFEST: manifest, **dict(sorted(members.items()))}))
    return len(members)


def comparison_name(column: Column, other: str) -> str:
    """Return the name of the comparison by example of a card's norm with another on a column."""
    return f"{COMPARISONS}/{column.task}-{column.scale}-{other}.json"


def _record(folder: Path, runs: Path) -> dict[str, bytes]:
    """Return the files of a record by their names in a bundle: no weights, no logs."""
    files = [folder / name for name in ("result.json", *FILES) if (folder / name).is_file()]
    files += [path for path in sorted((folder / "code").rglob("*")) if path.is_file()]
    assert reader.result(folder) is not None, "evidence has whole records alone"
    return {f"{RUNS}/{path.relative_to(runs).as_posix()}": path.read_bytes() for path in files}


def _packed(members: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            entry = zipfile.ZipInfo(name, _DATE)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, content)
    return buffer.getvalue()


def read_bundle(path: Path) -> dict[str, bytes]:
    """Return the members of a bundle by name, each as its manifest has it.

    Raises ValueError, in one line, for what is no bundle, is too large, has a name that is none, or has
    other content than its manifest says.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"{path}: larger than {MOST_BYTES >> 20} MB, which no scorecard is")
        with zipfile.ZipFile(path) as archive:
            members = _members(archive)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise ValueError(f"{path}: no bundle of a scorecard ({' '.join(str(error).split())})") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    try:
        return _checked(members)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _members(archive: zipfile.ZipFile) -> dict[str, bytes]:
    entries = archive.infolist()
    if len(entries) > MOST_MEMBERS:
        raise ValueError(f"has {len(entries):,} members, more than {MOST_MEMBERS:,}")
    found: dict[str, bytes] = {}
    room = MOST_BYTES
    for entry in entries:
        name = entry.filename
        is_link = entry.external_attr >> 16 & 0o170000 == _LINK
        if not _NAME.fullmatch(name) or len(name) > LONGEST or is_link:
            raise ValueError(f"{name[:80]!r} is no name of a bundle's file")
        if name in found:
            raise ValueError(f"{name} is in it twice")
        with archive.open(entry) as file:
            found[name] = file.read(room + 1)  # what an entry says of its size may be untrue
        room -= len(found[name])
        if room < 0:
            raise ValueError(f"unpacks to more than {MOST_BYTES >> 20} MB, which no scorecard does")
    return found


def _checked(members: dict[str, bytes]) -> dict[str, bytes]:
    """Return the members but for the manifest, which names each of them with its digest."""
    manifest = plain_json(members.pop(MANIFEST, b""), MANIFEST)
    if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), dict):
        raise ValueError(f"{MANIFEST} lists no files")
    if manifest.get("schema") != SCHEMA:
        raise ValueError(f"{MANIFEST}: schema {str(manifest.get('schema'))[:20]} is not {SCHEMA}")
    listed = manifest["files"]
    for name in sorted({*members} ^ {*listed}):
        raise ValueError(f"{name[:80]!r} is in the bundle or in {MANIFEST}, and not in both")
    for name, content in members.items():
        if hashlib.sha256(content).hexdigest() != listed[name]:
            raise ValueError(f"{name} is not what {MANIFEST} says")
    return members


def plain_json(content: bytes, name: str) -> Any:
    """Return what a JSON text says; raises ValueError naming the member where it says nothing."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError(f"{name} is no JSON, or is missing") from None
