"""The bill of docs/howto/gpus.md, from what GPUs measured: `python -m scripts.gpu_bill`.

results/bench/gpu_speed.jsonl holds the lines of scripts.lease's measured.jsonl as they came back; the
last line of a task, precision and setting of graphs counts. results/bench/gpu_updates.csv has older
measurements, without graphs. The page's table stands between two marks.
"""

import csv
import json
import math
import re
from typing import Any

from adanorm.config.compose import compose_experiment
from adanorm.config.paths import PROJECT
from adanorm.config.sections import PRECISIONS, TrainingConfig
from scripts.gpu_measure import UPDATES

BENCH = PROJECT / "results" / "bench"
MEASURED, OLDER = BENCH / "gpu_speed.jsonl", BENCH / "gpu_updates.csv"
PAGE = PROJECT / "docs" / "howto" / "gpus.md"
MARKED = re.compile(r"(<!-- bill -->\n).*?(<!-- /bill -->)", re.DOTALL)
TASKS = ("en-de", "enwik8", "de-en", "en-vi", "ptb", "mnist", "rt")
EPOCH = 39  # batches of translation's dry run, over which the older measurements took the mean
VALIDATED = {"enwik8": 5_000_000}  # bytes; other tasks validate in minutes per run
Measured = dict[tuple[str, str, bool], dict[str, Any]]  # by task, precision, whether graphs replay


def read() -> Measured:
    """Return the measurements of speed at the paper's size."""
    measured: Measured = {}
    with OLDER.open() as file:
        for row in csv.DictReader(file):
            if row["scale"] == "paper":
                accumulate = training_of(row["task"]).accumulate
                facts = {"milliseconds": float(row["milliseconds"])}
                facts["device_milliseconds"] = float(row["device_milliseconds"])
                facts["batches"] = EPOCH / math.ceil(EPOCH / accumulate)
                measured[row["task"], row["precision"], False] = facts
    for line in MEASURED.read_text().splitlines():
        facts = json.loads(line)
        settings = dict(word.split("=", 1) for word in facts.get("settings", ()))
        if "hours" in facts and settings.get("scale", "paper") == "paper":
            precision = settings.get("precision", "fp32")
            has_graphs = facts["graphs"] is not None
            measured[facts["task"], precision, has_graphs] = facts
    return measured


def training_of(task: str) -> TrainingConfig:
    """Return a task's training at the paper's size."""
    return compose_experiment([f"task={task}", "scale=paper"]).training


def hours(task: str, facts: dict[str, Any]) -> float:
    """Return the hours of a run's updates.

    A measured update has the mean number of batches of a short epoch's updates, a run's update has
    as many as are accumulated.
    """
    training = training_of(task)
    updates = UPDATES.get(task) or training.max_updates or 0
    milliseconds = facts["milliseconds"] / facts["batches"] * training.accumulate
    return updates * milliseconds / 3.6e6


def validation_hours(task: str, measured: Measured) -> float:
    """Return the hours of a run's validations, measured in any precision, where they count."""
    training = training_of(task)
    for precision in PRECISIONS:
        facts = measured.get((task, precision, True))
        if task in VALIDATED and facts and training.evaluate_every and training.max_updates:
            seconds = facts["evaluation_seconds"] * VALIDATED[task] / facts["evaluation_size"]
            return training.max_updates / training.evaluate_every * seconds / 3600
    return 0.0


def table(measured: Measured) -> list[str]:
    """Return the bill's lines: for each task and precision milliseconds and hours, then sums."""
    lines = [
        "| Task | Precision | ms per update without graphs | with graphs | in kernels | Hours |",
        "|---|---|---|---|---|---|",
    ]
    sums = dict.fromkeys(PRECISIONS, 0.0)
    for task in TASKS:
        validating = validation_hours(task, measured)
        for precision in PRECISIONS:
            eager = measured.get((task, precision, False))
            replayed = measured.get((task, precision, True))
            facts = replayed or eager
            if facts is None:
                continue
            spent = hours(task, facts) + validating
            sums[precision] += spent
            kernels = facts["device_milliseconds"]
            cells = [
                _milliseconds(eager),
                _milliseconds(replayed),
                f"{kernels:.3g}",
                f"{spent:.2g}",
            ]
            lines.append(f"| {task} | {precision} | {' | '.join(cells)} |")
    total = ", ".join(f"{spent:.0f} hours in {precision}" for precision, spent in sums.items())
    return [*lines, "", f"One run of each task: {total}."]


def _milliseconds(facts: dict[str, Any] | None) -> str:
    return "-" if facts is None else f"{facts['milliseconds']:.3g}"


def main() -> None:
    """Write the bill into the page."""
    text = "\n".join(table(read()))
    page = PAGE.read_text("utf-8")
    PAGE.write_text(MARKED.sub(lambda match: f"{match[1]}{text}\n{match[2]}", page), "utf-8")


if __name__ == "__main__":
    main()
