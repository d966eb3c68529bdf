"""Show tasks, norms, scales and studies with their first comment, then the runs on record."""

from __future__ import annotations

import textwrap
from collections import Counter
from pathlib import Path

from adanorm.cli.command import WIDTH, Arguments, Usage, choices_lines
from adanorm.config.outside_norms import outside_norms
from adanorm.config.paths import CONF, RUNS, choices
from adanorm.config.placements import POSITIONS
from adanorm.config.yaml_file import read_yaml_file
from adanorm.records import reader
from adanorm.records.result import Result

USAGE = Usage()


def main(arguments: Arguments) -> None:
    """Print all of it."""
    norms = [*choices("norm"), *outside_norms()]
    print(_wrapped(f"norms    {', '.join(norms)}", 9))
    print(f"scales   {', '.join(choices('scale'))}, auto")
    for line in choices_lines("positions", f"{', '.join(POSITIONS)} (model.norm_position)", width=9):
        print(line[2:])
    print("tasks")
    for name in choices("task"):
        print(_wrapped(f"  {name:<11} {_about(CONF / 'task' / f'{name}.yaml')}", 14))
    print("studies")
    for name in choices("study"):
        title = read_yaml_file(CONF / "study" / f"{name}.yaml")["title"]
        print(_wrapped(f"  {name:<20} {title}", 23))
    print(_wrapped(f"launchers {', '.join(choices('launcher'))}", 10))
    print("runs on record (done, diverged or failed, over seeds)")
    for line in _done() or ["  none yet: make reproduce TASK=mnist NORM=adanorm"]:
        print(line)


def _wrapped(text: str, indent: int) -> str:
    """Return a text in lines of 80 columns; names with hyphens stay whole."""
    return textwrap.fill(text, WIDTH, subsequent_indent=" " * indent, break_on_hyphens=False)


def _about(path: Path) -> str:
    """Return the first sentence of a file's comments."""
    comments = [line[2:] for line in path.read_text("utf-8").splitlines() if line.startswith("# ")]
    text = " ".join(line for line in comments if not line.startswith("@"))
    return text.partition(". ")[0].partition("; ")[0]


def _done() -> list[str]:
    """Return one line per task and scale: its norms, with how many runs have ended."""
    ended = [record.ended for record in reader.records(RUNS)]
    runs = [run for run in ended if isinstance(run, Result) and run.dry_run is None]
    counts = Counter((run.task, run.scale, run.norm, run.status) for run in runs)
    lines: dict[tuple[str, str], list[str]] = {}
    for (task, scale, norm, status), count in sorted(counts.items()):
        text = f"{norm} {count}" + ("" if status == "done" else f" {status}")
        lines.setdefault((task, scale), []).append(text)
    return [_wrapped(f"  {task} {scale}: {', '.join(texts)}", 4) for (task, scale), texts in lines.items()]
