"""Show tasks, norms, scales, launchers and positions; with `studies` or `runs`, those.

`studies` are the grids of runs, and `runs` the numbers of runs on record.
"""

import re
import textwrap
from collections import Counter
from pathlib import Path

from adanorm.cli.command import WIDTH, Arguments, Usage, hanging
from adanorm.config.errors import check_known
from adanorm.config.outside_norms import outside_norms
from adanorm.config.paths import CONF, RUNS, choices
from adanorm.config.placements import POSITIONS
from adanorm.config.values import read_yaml_file
from adanorm.records import reader
from adanorm.records.result import Result
from adanorm.runs.auto_scale import tasks_without_network

PARTS = ("studies", "runs")
USAGE = Usage(name="[studies|runs]", choices=lambda: PARTS, examples=("", "studies", "runs"))


def main(arguments: Arguments) -> None:
    """Print what the command line asks for: names of settings, studies, or runs on record."""
    part = "".join(arguments.names)
    check_known("part", arguments.names, PARTS)
    if part == "studies":
        _show_studies()
    elif part == "runs":
        print("runs on record (done, diverged or failed, over seeds)", flush=True)
        print("\n".join(_done() or ["  none yet: make reproduce TASK=mnist NORM=adanorm"]))
    else:
        _show_settings()


def _show_settings() -> None:
    tasks = {name: description(CONF / "task" / f"{name}.yaml") for name in choices("task")}
    norms = {name: description(CONF / "norm" / f"{name}.yaml") for name in choices("norm")}
    norms |= dict.fromkeys(outside_norms(), "from another installed package")
    _show("tasks (task=NAME)", tasks)
    _show("norms (norm=NAME)", norms)
    lists = {
        "scales": [*choices("scale"), "auto"],
        "launchers": choices("launcher"),
        "positions": POSITIONS,
    }
    for kind, names in lists.items():
        print("\n".join(hanging(f"{kind:<10} ", ", ".join(names))))
    shipped = ", ".join(tasks_without_network())
    print("\n".join(hanging("train without a network: ", shipped)))
    counts = f"{len(choices('study'))} studies: adanorm list studies"
    print(f"{counts}; runs on record: adanorm list runs", flush=True)


def _show_studies() -> None:
    studies = {}
    for name in choices("study"):
        studies[name] = str(read_yaml_file(CONF / "study" / f"{name}.yaml").get("title"))
    _show("studies (adanorm study NAME)", studies)


def _show(heading: str, descriptions: dict[str, str]) -> None:
    """Print one line per name with its description; clauses that do not fit are left out."""
    print(heading)
    width = max(map(len, descriptions))
    room = WIDTH - width - 3
    for name, text in descriptions.items():
        clauses = text
        while len(clauses) > room and ", " in clauses:
            clauses = clauses.rpartition(", ")[0]
        print(
            f"  {name:<{width}} {textwrap.shorten(clauses, room, placeholder=' ...')}",
            flush=True,
        )


def description(path: Path) -> str:
    """Return the description of a task or a norm: the first clause of its file's comments."""
    comments = re.findall(
        r"^# (?!@)(.*)$",
        path.read_text("utf-8", "replace"),
        re.MULTILINE,
    )
    return re.split(
        r"(?<=\S)\. |; |: |\.$",
        " ".join(comments),
        maxsplit=1,
    )[0]


def _done() -> list[str]:
    """Return one line per task and scale: its norms, each with the number of runs."""
    counts: Counter[tuple[str, ...]] = Counter()
    for record in reader.records(RUNS):
        run = record.ended
        if isinstance(run, Result) and run.dry_run is None:
            counts[run.task, run.scale, run.norm, run.status] += 1
    texts: dict[str, list[str]] = {}
    for (task, scale, norm, status), count in sorted(counts.items()):
        text = f"{norm} {count}"
        if status != "done":
            text += f" {status}"
        texts.setdefault(f"  {task} {scale}: ", []).append(text)
    lines = []
    for start, entries in texts.items():
        lines += hanging(start, ", ".join(entries))
    return lines
