"""Keeping records: their lines are copied to those that a folder of runs keeps."""

from pathlib import Path

from adanorm.config.errors import one_line
from adanorm.config.paths import analyses_folder, runs_folder
from adanorm.records import lines
from adanorm.records.evidence import evidence_of
from adanorm.records.folder import path_text
from adanorm.records.reader import Record
from adanorm.records.result import AnalysisResult, Ended, Result


def keep(record: Record, *, into: Path | None = None) -> bool:
    """Copy the line of a record to those that are kept; return whether something was added.

    `into` is the folder of runs that keeps it (default: the repository's). Raises ValueError if the
    record is no evidence (`evidence_of`), or if another one of its name is kept.
    """
    try:
        result = evidence_of(record)
        assert record.line is not None, "a record that ended has a line"
        return lines.append(lines.file_of(_parent(result, into)), record.line)
    except ValueError as error:
        raise ValueError(f"{path_text(record.folder)}: {one_line(error)}") from None


def _parent(result: Ended, runs: Path | None) -> Path:
    """Return the folder in which a record's folder lies, in `runs` or the repository's results."""
    if isinstance(result, Result):
        return runs_folder(runs) / result.task / result.norm
    assert isinstance(result, AnalysisResult)
    return analyses_folder(runs) / result.analysis / (result.task or "") / result.norm
