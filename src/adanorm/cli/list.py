"""Show tasks, norms, scales and studies with their first comment, then the runs on record."""

from __future__ import annotations

import textwrap
from collections import Counter
from pathlib import Path

from adanorm.cli.command import WIDTH, Arguments, Usage, choices_lines
from adanorm.config.compose import cached_experiment
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
    for line in _undefined():
        print(line)
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


def _undefined() -> list[str]:
    """Return a line for each reason why some norms are not defined in some tasks."""
    from adanorm.models.norm_compatibility import why_unsupported  # which imports torch
    from adanorm.norms import norm_factory

    pairs: dict[str, dict[str, list[str]]] = {}  # reason -> norm -> tasks
    sites = {task: cached_experiment([f"task={task}", "norm=none"]).model.sites() for task in choices("task")}
    for name in choices("norm"):
        norm = norm_factory(cached_experiment(["task=rt", f"norm={name}"]).norm).trial
        for task, offered in sites.items():
            if f"{task}_{name}" in choices("task_norm"):
                offered = cached_experiment([f"task={task}", f"norm={name}"]).model.sites()  # noqa: PLW2901
            reason = why_unsupported(norm, offered)
            if reason is not None:
                pairs.setdefault(reason, {}).setdefault(name, []).append(task)
    lines = []
    for reason, tasks in pairs.items():
        named: dict[str, list[str]] = {}
        for name, where in tasks.items():
            named.setdefault(", ".join(where), []).append(name)
        which = "; ".join(f"{', '.join(norms)} in {where}" for where, norms in named.items())
        lines.append(_wrapped(f"  not {which}: {reason}", 4))
    return lines


def _done() -> list[str]:
    counts: Counter[tuple[str, str, str, str]] = Counter()
    for record in reader.records(RUNS):
        if isinstance(result := record.ended, Result):
            counts[result.task, result.scale, result.norm, result.status] += 1
    lines: dict[tuple[str, str], list[str]] = {}
    for (task, scale, norm, status), count in counts.items():
        text = f"{norm} {count}" + ("" if status == "done" else f" {status}")
        lines.setdefault((task, scale), []).append(text)
    return [
        _wrapped(f"  {task} {scale}: {', '.join(texts)}", 4) for (task, scale), texts in sorted(lines.items())
    ]
