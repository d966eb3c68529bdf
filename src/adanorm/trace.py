"""The runs behind a cell: `python -m adanorm.trace table4/AdaNorm/RT`."""

from __future__ import annotations

import json
import shlex
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from adanorm import compose, studies
from adanorm.config import Experiment, choices
from adanorm.records import reader
from adanorm.records.folder import shown
from adanorm.reporting.cells import cell
from adanorm.reporting.formats import title
from adanorm.reporting.published import published_tasks

DESCRIPTION = """Print the runs behind a cell of a table, and the command that repeats each.

  python -m adanorm.trace STUDY/NORM/TASK

such as table4/AdaNorm/RT; norm and task as the table or the configuration writes them. A
repeated run goes to a folder of its own (runs=repeated), so that it can be compared."""


def main() -> None:
    """Print what stands behind the cell that the command line names."""
    if {"--help", "-h"} & {*sys.argv[1:]} or len(sys.argv) != 2:
        print(DESCRIPTION)
        return
    for line in trace(sys.argv[1]):
        print(line)


def trace(address: str) -> list[str]:
    """Return lines on the runs of a cell, STUDY/NORM/TASK.

    Raises ValueError for a study, norm or task that is not there.
    """
    parts = address.split("/")
    if len(parts) != 3:
        raise ValueError(f"{address!r}: name a cell as STUDY/NORM/TASK, such as table4/AdaNorm/RT")
    study = studies.load(parts[0], known_tasks=published_tasks())
    norm = _named(parts[1], study.rows, "norm")
    task = _named(parts[2], study.columns, "task")
    runs = studies.grid(study)[norm, task]
    if not runs:
        raise ValueError(f"{task}: no task of conf/task yet: choose from {', '.join(choices('task'))}")
    found = cell(runs)
    lines = [f"{study.title}: {title(norm)}, {title(task)}"]
    paper = f"; the paper has {found.paper.text}: {found.verdict}" if found.paper else ""
    lines.append(f"test {found.metric} {found.text}{paper}")
    for run in runs:
        lines += ["", *_lines(study, run, found.metric)]
    return lines


def _named(name: str, known: Sequence[str], kind: str) -> str:
    """Return the entry that a name stands for, as the configuration or as a table writes it."""
    for entry in known:
        if name.lower() in (entry.lower(), title(entry).lower()):
            return entry
    raise ValueError(f"no {kind} {name!r} in this study: choose from {', '.join(known)}")


def _lines(study: studies.Study, run: Experiment, metric: str) -> list[str]:
    result = reader.result(run.folder())
    if result is None:
        return [f"seed {run.seed}: not run", f"  {_command(study, run)}"]
    lines = [f"seed {run.seed}: {_ending(result, metric)}", f"  record   {shown(run.folder())}"]
    path = run.folder() / "environment.json"
    environment: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    if environment:
        dirty = " and uncommitted changes" if environment.get("dirty") else ""
        lines.append(f"  commit   {environment.get('commit')}{dirty}")
        packages = ", ".join(f"{name} {version}" for name, version in environment["packages"].items())
        computed = f"{environment['device']}, {environment['precision']}, {packages}"
        lines += textwrap.wrap(computed, 80, initial_indent="  computed ", subsequent_indent=" " * 11)
    lines += [f"  data     {name} {checksum[:16]}" for name, checksum in result.get("data", {}).items()]
    repeat = _command(study, run.model_copy(update={"runs": "repeated"}))
    # What a record does not say was computed by the eager norms: there were no others then.
    backend = environment.get("norm_backend", "eager").partition(":")[0]
    return [*lines, f"  repeat   {repeat} norm.backend={backend}"]


def _command(study: studies.Study, run: Experiment) -> str:
    return shlex.join(["python", "-m", "adanorm.run", *studies.command_line(study, run)])


def _ending(result: dict[str, Any], metric: str) -> str:
    if result["status"] == "done":
        return f"test {metric} {result['test'][metric]:.4f} at update {result['best_step']}"
    return f"{result['status']}: {result.get('diverged') or result.get('error')}"


if __name__ == "__main__":
    compose.door(main)
