"""The bill of docs/howto/gpus.md, from what a borrowed machine measured: `python -m scripts.pages.gpu_bill`.

results/bench/gpu_speed.jsonl holds the lines of scripts.lease's measured.jsonl as they came back; the
last line of a task, precision and setting of graphs counts. The page's table stands between two marks.
"""

import json
import re
from pathlib import Path
from typing import Any

from adanorm.config.compose import compose_experiment
from adanorm.config.paths import PROJECT
from scripts.gpu_measure import UPDATES

MEASURED = PROJECT / "results" / "bench" / "gpu_speed.jsonl"
PAGE = PROJECT / "docs" / "howto" / "gpus.md"
MARKED = re.compile(r"(<!-- bill -->\n).*?(<!-- /bill -->)", re.DOTALL)
TASKS = ("en-de", "enwik8", "de-en", "en-vi", "ptb", "mnist", "rt")
PRECISIONS = ("fp32", "tf32", "bf16")
VALIDATED = {"enwik8": 5_000_000}  # bytes; other tasks validate in minutes per run
Measured = dict[tuple[str, str, bool], dict[str, Any]]  # by task, precision, whether graphs replay


def read(path: Path) -> Measured:
    """Return the measurements of speed at the paper's size."""
    measured: Measured = {}
    for line in path.read_text().splitlines():
        facts = json.loads(line)
        settings = dict(word.split("=", 1) for word in facts.get("settings", ()))
        if "hours" not in facts or settings.get("scale", "paper") != "paper":
            continue
        precision = settings.get("precision", "fp32")
        has_graphs = settings.get("graphs", "on") in ("on", "true")
        measured[facts["task"], precision, has_graphs] = facts
    return measured


def hours(task: str, facts: dict[str, Any]) -> tuple[float, float]:
    """Return the hours of a run's updates and of its validations.

    A measured update has the mean number of batches of a short epoch's updates, a run's update has
    as many as are accumulated.
    """
    settings = compose_experiment([f"task={task}", "scale=paper"]).training
    updates = UPDATES.get(task) or settings.max_updates or 0
    per_batch = facts["milliseconds"] / facts["batches"]
    training = updates * settings.accumulate * per_batch / 3.6e6
    size, every = VALIDATED.get(task), settings.evaluate_every
    if size is None or every is None:
        return training, 0.0
    seconds = facts["evaluation_seconds"] * size / facts["evaluation_size"]
    return training, updates / every * seconds / 3600


def table(measured: Measured) -> list[str]:
    """Return the bill's lines: for each task milliseconds, kernels and hours by precision, and sums."""
    head = [
        "Task",
        "Precision",
        "ms per update",
        "in kernels",
        "without graphs",
        "Hours",
        "validating",
    ]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    sums = dict.fromkeys(PRECISIONS, 0.0)
    for task in TASKS:
        for precision in PRECISIONS:
            facts = measured.get((task, precision, True))
            if facts is None:
                continue
            training, validating = hours(task, facts)
            sums[precision] += training + validating
            eager = measured.get((task, precision, False), {})
            cells = [
                task,
                precision,
                f"{facts['milliseconds']:.3g}",
                _number(facts.get("device_milliseconds")),
                _number(eager.get("milliseconds")),
                f"{training:.2g}",
                f"{validating:.2g}" if validating else "-",
            ]
            lines.append("| " + " | ".join(cells) + " |")
    total = ", ".join(f"{spent:.0f} in {precision}" for precision, spent in sums.items() if spent)
    return [*lines, "", f"Hours of one run of each task that was measured so: {total}."]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def main() -> None:
    """Write the bill into the page."""
    text = "\n".join(table(read(MEASURED)))
    page = PAGE.read_text("utf-8")
    PAGE.write_text(MARKED.sub(lambda match: f"{match[1]}{text}\n{match[2]}", page), "utf-8")


if __name__ == "__main__":
    main()
