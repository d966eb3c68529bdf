"""Adding finished records to the store, and writing kept ones out as folders again."""

from pathlib import Path

from adanorm.config.errors import one_line
from adanorm.config.paths import ANALYSES, RUNS, analyses_folder, runs_folder
from adanorm.files import write_files
from adanorm.records import store
from adanorm.records.check import check
from adanorm.records.folder import path_text
from adanorm.records.reader import Record, record
from adanorm.records.result import AnalysisResult, Ended, Result


def keep(folder: Path, *, into: Path | None = None) -> bool:
    """Add the record in a folder to the store; return whether it is new there.

    `into` is the folder of runs whose store takes it (default: the repository's). Raises ValueError
    if the record is no evidence (`evidence_of`), or if the store has another of its name.
    """
    live = Record(folder)
    try:
        return store.append(
            store.file_of(_parent(evidence_of(live), into)), folder.name, live.contents()
        )
    except ValueError as error:
        raise ValueError(f"{path_text(folder)}: {one_line(error)}") from None


def evidence_of(entry: Record) -> Ended:
    """Return a record's result; raises ValueError if it is not whole, failed, a dry run or of scale smoke."""
    result = entry.checked()
    if not result.is_complete:
        raise ValueError(f"it {result.status}, and is tried again at the next start")
    if getattr(result, "scale", None) == "smoke":
        raise ValueError("it is of scale smoke, which is no evidence")
    if getattr(result, "dry_run", None):
        raise ValueError("it is a dry run")
    return result


def _parent(result: Ended, runs: Path | None) -> Path:
    """Return the folder in which the folder of a record lies, below `runs` or the repository's results."""
    if isinstance(result, Result):
        return runs_folder(runs) / result.task / result.norm
    assert isinstance(result, AnalysisResult)
    return analyses_folder(runs) / result.analysis / (result.task or "") / result.norm


def kept_record(name: str) -> Record:
    """Return a kept record by its path, or the part below results/runs or analyses; ValueError if none."""
    for folder in (Path(name).resolve(), RUNS / name, ANALYSES / name):
        if (entry := record(folder)).line and entry.line.is_whole:
            return entry
    raise ValueError(
        f"{name}: the store has no such record; name one as rt/adanorm/paper-seed1-09951176"
    )


def lay_out(entry: Record, into: Path) -> Path:
    """Write the files of a kept record, byte for byte, into a folder of runs; return the record's folder.

    Raises ValueError if the record is not whole, a file is not what its result says, or a record is
    there.
    """
    result = entry.ended
    if result is None:
        raise ValueError(f"{path_text(entry.folder)}: is not whole")
    folder = _parent(result, into) / entry.folder.name
    if (folder / "result.json").exists():
        raise ValueError(f"{path_text(folder)}: there is a record already")
    contents = entry.contents()
    if outside := [
        n for n in contents if not (folder / n).resolve().is_relative_to(folder.resolve())
    ]:
        raise ValueError(f"{path_text(folder)}: its file {outside[0]} would lie elsewhere")
    last = {"result.json": contents.pop("result.json")}  # it makes the record complete
    write_files(folder, contents | last)
    try:
        check(folder, Record(folder).content, result)
    except ValueError as error:
        raise ValueError(f"{path_text(folder)}: {one_line(error)}") from None
    return folder
