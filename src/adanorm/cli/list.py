"""Show tasks, norms and studies with descriptions, then scales, launchers, positions and runs on record."""

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
    """Print tasks, norms, studies, scales, launchers, positions, and the runs on record."""
    for group in ("task", "norm"):
        texts = {name: description(CONF / group / f"{name}.yaml") for name in choices(group)}
        outside = outside_norms() if group == "norm" else []
        _show(
            f"{group}s ({group}=NAME)",
            texts | dict.fromkeys(outside, "from another installed package"),
        )
    studies = {name: read_yaml_file(CONF / "study" / f"{name}.yaml") for name in choices("study")}
    _show(
        "studies (adanorm study NAME)",
        {name: str(study.get("title")) for name, study in studies.items()},
    )
    others = {
        "scales": [*choices("scale"), "auto"],
        "launchers": choices("launcher"),
        "positions": POSITIONS,
    }
    for kind, names in others.items():
        print("\n".join(hanging(f"{kind:<10} ", ", ".join(names))))
    print("runs on record (done, diverged or failed, over seeds)", flush=True)
    print("\n".join(_done() or ["  none yet: make reproduce TASK=mnist NORM=adanorm"]))


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
            f"  {name:<{width}} {textwrap.shorten(clauses, room, placeholder=' ...')}", flush=True
        )


def description(path: Path) -> str:
    """Return the description of a task or a norm: the first clause of its file's comments."""
    comments = re.findall(r"^# (?!@)(.*)$", path.read_text("utf-8", "replace"), re.MULTILINE)
    return re.split(r"(?<=\S)\. |; |: |\.$", " ".join(comments), maxsplit=1)[0]


def _done() -> list[str]:
    """Return one line per task and scale: its norms, each with the number of runs that have ended."""
    ended = [record.ended for record in reader.records(RUNS)]
    runs = [run for run in ended if isinstance(run, Result) and run.dry_run is None]
    counts = Counter((run.task, run.scale, run.norm, run.status) for run in runs)
    lines: dict[str, list[str]] = {}
    for (task, scale, norm, status), count in sorted(counts.items()):
        text = f"{norm} {count}" + ("" if status == "done" else f" {status}")
        lines.setdefault(f"{task} {scale}", []).append(text)
    return ["\n".join(hanging(f"  {name}: ", ", ".join(texts))) for name, texts in lines.items()]
