"""Print the runs behind a cell of a table, and the command that repeats each.

Write norm and task as the table or the configuration does. The printed commands put a repeated run into
a folder of its own (runs=repeated), so that it can be compared.
"""

import shlex
import textwrap
from pathlib import Path

from adanorm.cli.command import Arguments, Usage
from adanorm.cli.record_arguments import table_cell
from adanorm.config.titles import title
from adanorm.records import reader
from adanorm.records.folder import where
from adanorm.records.result import Result
from adanorm.reporting.tables.table import origins

USAGE = Usage(name="STUDY/NORM/TASK", examples=("table4/AdaNorm/RT",))


def main(arguments: Arguments) -> None:
    """Print what stands behind the cell that the command line names."""
    print("\n".join(trace(arguments.names[0])))


def trace(address: str) -> list[str]:
    """Return lines on the runs of a cell, STUDY/NORM/TASK; ValueError for one that is not there."""
    table, cell, (row, task) = table_cell(address)
    study = table.study
    lines = [f"{study.title}: {title(row)}, {title(task)}"]
    number = table.published(row, task)
    paper = f"; the paper has {number.text}: {table.verdict(row, task)}" if number else ""
    lines.append(f"test {cell.metric} {table.ours(row, task)}{paper}")
    results = {run.seed: (folder, run) for folder, run in zip(cell.folders, cell.results, strict=True)}
    for seed in sorted({*study.seeds, *results}):
        command = shlex.join(["adanorm", "run", *table.lines[row, task], f"seed={seed}"])
        not_run = [f"seed {seed}: not run", f"  {command}"]
        lines += ["", *(_lines(*results[seed], cell.metric, command) if seed in results else not_run)]
    return lines


def _lines(folder: Path, result: Result, metric: str, command: str) -> list[str]:
    ending = f"{result.status}: {result.reason}"
    if result.status == "done":
        ending = f"test {metric} {result.test_score(metric):.4f} at update {result.best_step}"
    one = reader.record(folder)
    lines = [f"seed {result.seed}: {ending}", f"  record   {where(folder)}"]
    for text in origins(one) or (["committed here"] if one.line else []):
        lines += textwrap.wrap(f"  made     {text}", 80, subsequent_indent=" " * 11)
    if environment := one.environment:
        dirty = " and uncommitted changes" if environment.get("dirty") else ""
        lines.append(f"  commit   {environment.get('commit')}{dirty}")
        packages = ", ".join(f"{name} {version}" for name, version in environment["packages"].items())
        computed = f"{environment['device']}, {environment['precision']}, {packages}"
        lines += textwrap.wrap(computed, 80, initial_indent="  computed ", subsequent_indent=" " * 11)
    lines += [f"  data     {name} {checksum[:16]}" for name, checksum in result.data.items()]
    return [*lines, f"  repeat   {command} runs=repeated norm.backend={one.norm_backend}"]
