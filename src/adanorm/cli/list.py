"""Show tasks, norms, scales and studies, each with a description, then the runs on record."""

import re
import textwrap
from collections import Counter
from pathlib import Path

from adanorm.cli.command import WIDTH, Arguments, Usage, hanging
from adanorm.config.outside_norms import outside_norms
from adanorm.config.paths import CONF, RUNS, choices
from adanorm.config.placements import POSITIONS
from adanorm.config.yaml_file import read_yaml_file
from adanorm.records import reader
from adanorm.records.result import Result

USAGE = Usage()


def main(arguments: Arguments) -> None:
    """Print all of it."""
    for group in ("task", "norm"):
        known = {name: description(CONF / group / f"{name}.yaml") for name in choices(group)}
        outside = outside_norms() if group == "norm" else []
        _show(f"{group}s ({group}=NAME)", known | dict.fromkeys(outside, "of another package installed here"))
    studies = {name: read_yaml_file(CONF / "study" / f"{name}.yaml") for name in choices("study")}
    _show("studies (adanorm study NAME)", {name: str(of.get("title")) for name, of in studies.items()})
    others = {"scales": [*choices("scale"), "auto"], "launchers": choices("launcher"), "positions": POSITIONS}
    for kind, names in others.items():
        print("\n".join(hanging(f"{kind:<10} ", ", ".join(names))))
    print("runs on record (done, diverged or failed, over seeds)", flush=True)
    print("\n".join(_done() or ["  none yet: make reproduce TASK=mnist NORM=adanorm"]))


def _show(head: str, about: dict[str, str]) -> None:
    """Print names, each with what it is in one line: clauses that do not fit are left out."""
    print(head)
    width = max(map(len, about))
    room = WIDTH - width - 3
    for name, text in about.items():
        shown = text
        while len(shown) > room and ", " in shown:
            shown = shown.rpartition(", ")[0]
        print(f"  {name:<{width}} {textwrap.shorten(shown, room, placeholder=' ...')}", flush=True)


def description(path: Path) -> str:
    """Return what a task or a norm is: the first words of the comment that opens its file."""
    comments = re.findall(r"^# (?!@)(.*)$", path.read_text("utf-8", "replace"), re.MULTILINE)
    return re.split(r"(?<=\S)\. |; |: |\.$", " ".join(comments), maxsplit=1)[0]


def _done() -> list[str]:
    """Return one line per task and scale: its norms, with how many runs have ended."""
    ended = [record.ended for record in reader.records(RUNS)]
    runs = [run for run in ended if isinstance(run, Result) and run.dry_run is None]
    counts = Counter((run.task, run.scale, run.norm, run.status) for run in runs)
    lines: dict[str, list[str]] = {}
    for (task, scale, norm, status), count in sorted(counts.items()):
        text = f"{norm} {count}" + ("" if status == "done" else f" {status}")
        lines.setdefault(f"{task} {scale}", []).append(text)
    return ["\n".join(hanging(f"  {of}: ", ", ".join(texts))) for of, texts in lines.items()]
