"""Names of finished runs on the command line: a run, a folder of runs, or a table's cell."""

from collections.abc import Sequence
from pathlib import Path

from adanorm.config.paths import RUNS
from adanorm.config.titles import title
from adanorm.records import reader
from adanorm.records.integrity import NAME
from adanorm.records.result import Result
from adanorm.reporting.tables.table import Table
from adanorm.studies.study import load_study, study_grid
from adanorm.verdicts.cell import Cell

NAMES = "RUN|TASK|STUDY/NORM/TASK..."


def named_runs(names: Sequence[str]) -> reader.Runs:
    """Return the named runs that have ended, sorted by seed; raises ValueError if there is none.

    A run or a folder of runs is named by its path, or by its path below results/runs.
    """
    records = {}
    for name in names:
        for record in _ended_records(name) or _records_of_cell(name):
            records[record.folder] = record
    runs = []
    for record in records.values():
        result = record.ended
        if isinstance(result, Result):
            runs.append((record, result))
    if not runs:
        raise ValueError(f"{', '.join(names)}: no run there has ended")
    return sorted(runs, key=lambda run: run[1].seed)


def _ended_records(name: str) -> list[reader.Record]:
    """Return the ended records of a run, of a norm on a task, or below a folder.

    Empty if there are none.
    """
    for folder in (Path(name).resolve(), RUNS / name):
        if NAME.fullmatch(folder.name):
            records = [reader.record(folder)]
        else:
            run_names = [run for run in reader.names(folder) if NAME.fullmatch(run)]
            records = [reader.record(folder / run) for run in run_names]
            records = records or [*reader.records(folder)]
        ended = [record for record in records if record.has_ended]
        if ended:
            return ended
    return []


def _records_of_cell(name: str) -> list[reader.Record]:
    """Return the records behind a table's cell; raises ValueError if the name is none of a cell."""
    if name.count("/") < 2 or name.startswith(("/", ".")) or NAME.fullmatch(Path(name).name):
        raise ValueError(
            f"{name}: no such record; write rt, rt/adanorm or rt/adanorm/paper-seed1-09951176"
        )
    _, cell, _ = table_cell(name)
    return [reader.record(folder) for folder in cell.folders]


def table_cell(address: str, runs: str | None = None) -> tuple[Table, Cell, tuple[str, str]]:
    """Return the table, the cell and its (row, task) at STUDY/NORM/TASK.

    ValueError if there is no cell.
    """
    file, is_file, rest = address.partition(".yaml/")
    name, _, rest = (f"{file}.yaml", "", rest) if is_file else address.partition("/")
    label, _, column = rest.rpartition("/")  # a row's label may have a slash in it
    if not (name and label and column):
        raise ValueError(f"{address!r}: name a cell as STUDY/NORM/TASK, such as table4/AdaNorm/RT")
    study = load_study(name)
    row = _named(label, list(study.rows), "row", study.scale)
    task = _named(column, study.columns, "task", study.scale)
    study = study.model_copy(update={"rows": {row: study.rows[row]}, "columns": [task]})
    table = Table(study, study_grid(study, runs=runs))
    if (cell := table.cells[row, task]) is None:
        raise ValueError(f"{address}: the study has no runs there")
    return table, cell, (row, task)


def _named(name: str, entries: Sequence[str], kind: str, scale: str) -> str:
    """Return the entry that a name means, written as in the configuration or as in a table."""
    matches = []
    for entry in entries:
        spellings = [entry, title(entry), title(entry, scale)]
        if name.lower() in map(str.lower, spellings):
            matches.append(entry)
    if not matches:
        raise ValueError(f"no {kind} {name!r} in this study: choose from {', '.join(entries)}")
    return name if name in entries else matches[0]
