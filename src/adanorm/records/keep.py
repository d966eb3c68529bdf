"""Keeping finished records in the store, and laying kept ones out again."""

from pathlib import Path

from adanorm.config.errors import one_line
from adanorm.config.paths import ANALYSES, RUNS, analyses_folder
from adanorm.files import write_files
from adanorm.records import store
from adanorm.records.check import check
from adanorm.records.folder import shown
from adanorm.records.reader import Record, record
from adanorm.records.result import AnalysisResult, Ended, Result


def keep(folder: Path, *, into: Path | None = None) -> bool:
    """Add the record in a folder to the store and return whether it was not there yet.

    `into` is the folder of runs whose store it goes to, else the repository's. Raises ValueError where the
    record has not ended well, is not whole or is of scale smoke.
    """
    live = Record(folder)
    try:
        return store.append(store.file_of(_parent(evidence_of(live), into)), folder.name, live.contents())
    except ValueError as error:
        raise ValueError(f"{shown(folder)}: {one_line(error)}") from None


def evidence_of(one: Record) -> Ended:
    """Return what a record came to; raises ValueError where it is not whole, or no evidence."""
    ended = one.checked()
    if not ended.is_complete:
        raise ValueError(f"it {ended.status}, and is tried again at the next start")
    if getattr(ended, "scale", None) == "smoke":
        raise ValueError("it is of scale smoke, which is no evidence")
    if getattr(ended, "dry_run", None):
        raise ValueError("it is a dry run")
    return ended


def _parent(ended: Ended, runs: Path | None) -> Path:
    """Return the folder that a record lies in, in a folder of runs or in the repository's."""
    if isinstance(ended, Result):
        return (runs or RUNS) / ended.task / ended.norm
    assert isinstance(ended, AnalysisResult)
    folder = analyses_folder(str(runs) if runs else None) / ended.analysis
    return (folder / ended.task if ended.task else folder) / ended.norm


def kept(name: str) -> Record:
    """Return a kept record by its path or the part below results/runs or analyses; raises ValueError."""
    for folder in (Path(name).resolve(), RUNS / name, ANALYSES / name):
        if (one := record(folder)).line and one.line.is_whole:
            return one
    raise ValueError(f"{name}: the store has no such record; name one as rt/adanorm/paper-seed1-09951176")


def lay_out(one: Record, into: Path) -> Path:
    """Write the files of a kept record into a folder of runs, byte for byte, and return its own folder.

    Raises ValueError where a file is not what the record's result says, or there is a record already.
    """
    ended = one.ended
    if ended is None:
        raise ValueError(f"{shown(one.folder)}: is not whole")
    folder = _parent(ended, into) / one.folder.name
    if (folder / "result.json").exists():
        raise ValueError(f"{shown(folder)}: there is a record already")
    contents = one.contents()
    if others := [n for n in contents if not (folder / n).resolve().is_relative_to(folder.resolve())]:
        raise ValueError(f"{shown(folder)}: its file {others[0]} would lie elsewhere")
    last = {"result.json": contents.pop("result.json")}  # which ends a record
    write_files(folder, contents | last)
    try:
        check(folder, Record(folder).content, ended)
    except ValueError as error:
        raise ValueError(f"{shown(folder)}: {one_line(error)}") from None
    return folder
