"""What a table says of its settings: which are assumed, which were chosen, and out of how many."""

from __future__ import annotations

import re
from functools import cache

from adanorm.config.experiment import Experiment
from adanorm.config.paths import CONF, choices
from adanorm.config.titles import title
from adanorm.config.yaml_file import read_yaml_file
from adanorm.reporting.tables.table import Table

MARKS = ("assumed", "recollected")  # of settings that the paper does not state, in conf/task


def setting_notes(table: Table) -> list[str]:
    """Return what a reader of the table must know of its settings, a paragraph each."""
    return [*_settings(table), *_tuned(table), *_choice(table)]


def _settings(table: Table) -> list[str]:
    counts = {
        mark: {task: _marked(task, mark) for task in table.study.columns if task in choices("task")}
        for mark in MARKS
    }
    said = {
        mark: ", ".join(f"{title(task)} {count}" for task, count in found.items() if count)
        for mark, found in counts.items()
    }
    if not any(said.values()):
        return []
    parts = [f"Settings that the paper leaves open, marked *assumed* in `conf/task/`: {said['assumed']}."]
    if said["recollected"]:
        parts.append(f"Settings that no public source confirms, marked *recollected*: {said['recollected']}.")
    return [" ".join(parts)]


@cache
def _marked(task: str, mark: str) -> int:
    """Return how many lines of a task's configuration, and of what it inherits, carry a mark."""
    files = [CONF / "task" / f"{task}.yaml"]
    files += [CONF / "task" / f"{name}.yaml" for name in _SHARED.findall(files[0].read_text("utf-8"))]
    marked = re.compile(rf"#.*\b{mark}\b")
    lines = (
        line for file in files for line in file.read_text("utf-8").splitlines() if not line.startswith("#")
    )
    return sum(bool(marked.search(line)) for line in lines)


_SHARED = re.compile(r"^  - (shared/\S+)", re.MULTILINE)


def _tuned(table: Table) -> list[str]:
    """Return the parameters that a norm has on one task alone, unless the rows try settings of their own."""
    study = table.study
    if study.tries:
        return []
    firsts: dict[tuple[str, str], list[Experiment]] = {}  # the first run of each cell, by task and norm
    for (label, task), plan in table.grid.items():
        firsts.setdefault((task, study.rows[label].norm), []).extend(plan.runs[:1])
    said = []
    for (task, norm), runs in firsts.items():
        file = CONF / "task_norm" / f"{task}_{norm}.yaml"
        own = read_yaml_file(file).get("norm", {}).get("params", {}) if file.exists() else {}
        if own and any(own.items() <= run.norm.params.items() for run in runs):
            values = ", ".join(f"{key} = {value}" for key, value in own.items())
            said.append(f"{title(norm)} on {title(task)}, {values}")
    if not said:
        return []
    return [
        f"Chosen for a norm on a task, by validation (`conf/task_norm/` says of how many): {'; '.join(said)}."
        " The table of the study `tuned` has LayerNorm with as many tries."
    ]


def _choice(table: Table) -> list[str]:
    """Return what a study with a budget chooses by."""
    study = table.study
    if not study.tries:
        return []
    own = "; ".join(
        f"{title(label)}: {', '.join(row.budget)}" for label, row in study.rows.items() if row.budget
    )
    tried = f"The same budget for every cell: {', '.join(study.budget)}"
    if own:
        tried = f"As many settings are tried in every cell ({own})"
    found = (
        f"{tried}. Shown is the best by mean validation score over the seeds, in brackets which; test"
        " scores had no part in it."
    )
    return [found]
