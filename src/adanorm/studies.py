"""Studies: grids of runs, written once in conf/study, that say what to run and what to print."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import yaml
from pydantic import Field, ValidationError

from adanorm import compose
from adanorm.config import CONF, Experiment, choices, first_problem
from adanorm.sections import Section


class Study(Section):
    """Norms (rows) x tasks (columns) x seeds at one scale."""

    title: str
    rows: Annotated[list[str], Field(min_length=1)]
    columns: Annotated[list[str], Field(min_length=1)]
    scale: Literal["paper", "mini", "smoke"]
    seeds: Annotated[list[int], Field(min_length=1)]
    improvements: tuple[tuple[str, str], ...] = ()  # (from, to): a row of differences
    quote: str | None = None  # the paper's numbers stand beside runs they are no measure of: why
    overrides: tuple[str, ...] = ()  # of every run, in Hydra's syntax


def load(name: str, *, known_tasks: Sequence[str]) -> Study:
    """Return the study conf/study/<name>.yaml, or that of a path that ends in .yaml.

    Raises ValueError for an unknown study, for a key or value it cannot have, and for a column
    that is neither a task of conf/task nor among `known_tasks` (the paper's, not all built yet).
    """
    file = Path(name) if name.endswith(".yaml") else CONF / "study" / f"{name}.yaml"
    if not file.is_file():
        names = ", ".join(choices("study"))
        raise ValueError(f"unknown study {name!r}: choose from {names}, or name a .yaml file of your own")
    try:
        study = Study.model_validate(yaml.safe_load(file.read_text()))
    except ValidationError as error:
        raise ValueError(f"study {name}: {first_problem(error)}") from None
    tasks = {*choices("task"), *known_tasks}
    norms = {*choices("norm"), *compose.outside_norms()}
    for kind, entries, known in (("task", study.columns, tasks), ("norm", study.rows, norms)):
        for entry in entries:
            if entry not in known:
                raise ValueError(
                    f"study {name}: unknown {kind} {entry!r}: choose from {', '.join(sorted(known))}"
                )
    for pair in study.improvements:
        for entry in pair:
            if entry not in study.rows:
                raise ValueError(f"study {name}: improvement of {entry!r}, which is not among the rows")
    return study


Grid: TypeAlias = dict[tuple[str, str], list[Experiment]]  # (norm, task) -> its runs, one a seed


def grid(study: Study, *, runs: str | None = None) -> Grid:
    """Return the runs of every cell; none where the task is not in conf/task yet."""
    return {
        (norm, task): _cell(study, task, norm, runs) if task in choices("task") else []
        for task in study.columns
        for norm in study.rows
    }


def _cell(study: Study, task: str, norm: str, runs: str | None) -> list[Experiment]:
    overrides = [f"task={task}", f"norm={norm}", f"scale={study.scale}", *study.overrides]
    first = _composed((*overrides, *([f"runs={runs}"] if runs else [])))
    return [first.model_copy(update={"seed": seed}) for seed in study.seeds]


@cache
def _composed(overrides: tuple[str, ...]) -> Experiment:  # studies share most of their runs
    return compose.experiment(overrides)


def command_line(study: Study, run: Experiment) -> list[str]:
    """Return the command line of one of a study's runs."""
    places = [f"runs={run.runs}"] if run.runs else []
    chosen = [f"task={run.task.name}", f"norm={run.norm.name}", f"scale={run.scale}"]
    return [*chosen, f"seed={run.seed}", *study.overrides, *places]
