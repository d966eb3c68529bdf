"""The tasks, each at a scale, that a budget of time has room for."""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

from adanorm.config.compose import cached_experiment
from adanorm.config.experiment import Experiment
from adanorm.config.paths import choices
from adanorm.config.titles import in_words, title
from adanorm.data.catalogue import SOURCES
from adanorm.data.fetch import availability, missing_files
from adanorm.runs.duration import on_cuda
from adanorm.runs.setup import compatible_norm
from adanorm.verdicts.preregistration import preregistration

Scale: TypeAlias = Literal["paper", "mini", "smoke"]
START_SECONDS = 5.0  # from the start of a run's process to its first update
SHARE = 0.8  # share of the budget for the planned seeds; the rest is for more seeds, to decide comparisons
UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86400}
# A task is run at the first of these that the budget has room for.
REAL: tuple[Scale, ...] = ("paper", "mini")


class Column(NamedTuple):
    """A task at a scale, and about how many hours one run of it takes."""

    task: str
    scale: Scale
    hours: float

    @property
    def title(self) -> str:
        """Its name in texts, such as `RT, scale mini`."""
        return f"{title(self.task)}, scale {self.scale}"

    def planned_seconds(self, norms: int, workers: int) -> float:
        """Return about how many seconds the planned seeds of `norms` norms take."""
        return (
            preregistration().stopping.planned
            * norms
            * (3600 * self.hours + START_SECONDS)
            / workers
        )


def budget_seconds(text: str) -> float:
    """Return the seconds of a budget such as 90s, 10min, 2h or 1d.

    Raises ValueError for any other text.
    """
    match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)(s|min|h|d)", text, re.ASCII)
    seconds = float(match[1]) * UNITS[match[2]] if match else 0.0
    if seconds <= 0:
        raise ValueError(f"budget={text}: write a time above zero such as 90s, 10min, 2h or 1d")
    return seconds


def span(seconds: float) -> str:
    """Return a time as text, such as `90 s`, `10 min` or `3 hours`."""
    return f"{seconds:.0f} s" if seconds < 100 else in_words(seconds / 3600)


def choose_columns(
    norms: Sequence[str], *, budget: float, workers: int
) -> tuple[list[Column], list[str]]:
    """Return the columns whose planned seeds fit, cheapest first, and a line per task left out.

    A task is chosen at scale paper if that fits, otherwise at mini. It needs a registered margin,
    its data on this machine, and sites at which the norms are defined. If none fits, the only
    column is the cheapest task at smoke, the scale for tests. Raises ValueError if that does not
    fit, or no task has such sites.
    """
    chosen: dict[str, Column] = {}
    left_out: dict[str, str] = {}
    room = SHARE * budget
    for scale in REAL:
        for column, lacking in _columns(norms, scale):
            seconds = column.planned_seconds(len(norms), workers)
            if column.task not in chosen and not lacking and seconds <= room:
                room -= seconds
                chosen[column.task] = column
            why = lacking or f"the planned seeds of every norm take about {span(seconds)}"
            left_out[column.task] = f"{column.title}: {why}"
    lines = [line for task, line in left_out.items() if task not in chosen]
    if chosen:
        return sorted(chosen.values(), key=lambda column: column.hours), lines
    cheapest = next((column for column, lacking in _columns(norms, "smoke") if not lacking), None)
    if cheapest is None:
        raise ValueError(
            f"{', '.join(norms)}: no task has sites at which all of these norms are defined"
        )
    needed = cheapest.planned_seconds(len(norms), workers)
    if needed > budget:
        raise ValueError(
            f"budget={span(budget)}: too small; the planned seeds of {len(norms)} norms on {cheapest.task},"
            f" scale smoke, take about {span(needed)} here: give more, such as budget=10min"
        )
    return [cheapest], lines


def _columns(norms: Sequence[str], scale: Scale) -> list[tuple[Column, str]]:
    """Return a column per task that can judge a norm, cheapest first, with what it lacks."""
    columns = {}
    for task in [task for task in preregistration().margins if task in choices("task")]:
        runs = [
            cached_experiment([f"task={task}", f"norm={norm}", f"scale={scale}"]) for norm in norms
        ]
        hours = runs[0].cost.cuda_hours if on_cuda(runs[0]) else runs[0].cost.cpu_hours
        columns[
            Column(
                task,
                scale,
                hours,
            )
        ] = _lacking(runs)
    return sorted(columns.items(), key=lambda entry: entry[0].hours)


def _lacking(runs: Sequence[Experiment]) -> str:
    """Return why the runs of a column cannot be made here; '' if they can."""
    try:
        for run in runs:
            compatible_norm(run)
    except ValueError as error:
        return str(error)
    run = runs[0]
    entry = SOURCES.get(run.data.source)
    missing = missing_files(entry, run.data) if entry else []
    packaged = all(
        any(address.startswith("package:") for address in file.addresses) for file in missing
    )
    if packaged and availability(run.data.source, run.data) is None:
        return run.data.lacks() or ""
    return f"data are not here; `adanorm data task={run.task.name} scale={run.scale}` gets them"
