"""Analyses as conf/analysis defines them, the records they make, and summaries of these records."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from adanorm.config.compose import UNTUNED, cached_experiment
from adanorm.config.errors import NUMBER, check_known
from adanorm.config.experiment import Experiment
from adanorm.config.outside_norms import outside_norms
from adanorm.config.overrides import check_fixed
from adanorm.config.paths import CONF, analyses_folder, choices
from adanorm.config.sections import Config, EachOnce, Param, Positive, Scale, Seeds
from adanorm.config.values import digest_of, read_yaml, read_yaml_file
from adanorm.records import reader
from adanorm.records.result import AnalysisResult


class Quantity(Config):
    """A number in the records, and how the table and the figure show it under `label`."""

    name: str
    label: str
    log: bool = False
    geometric: bool = False  # whether its means are geometric: for sizes orders of magnitude apart
    panel: bool = True  # whether the figure has a panel for it
    beside: str | None = None  # another quantity, drawn as a thin grey line in the same panel
    yes_within: str | None = None  # an option: the table says yes up to its value, else no


class Analysis(Config):
    """Norms x tasks x seeds at one scale.

    Every `every`-th of the first `steps` updates of a run is observed.
    """

    name: str
    title: str
    caption: str
    tasks: Annotated[list[str], EachOnce]  # empty: nothing is trained
    # `all` in YAML: every norm that is not named there.
    norms: Annotated[list[str], Field(min_length=1), EachOnce]
    scale: Scale = "mini"
    seeds: Seeds = Field(default=[1])
    steps: Positive | None = None
    every: Positive | None = None
    evaluate: bool = False  # whether the final validation score is recorded
    overrides: tuple[str, ...] = ()  # for every run, in Hydra's syntax
    task_overrides: dict[str, tuple[str, ...]] = Field(default={})  # for every run on a task
    options: dict[str, Param] = Field(default={})  # keyword arguments of the observing function
    shown: Annotated[list[Quantity], Field(min_length=1)]

    @field_validator("norms", mode="before")
    @classmethod
    def _expand_all(cls, norms: Any) -> Any:
        entries = ["all"] if norms == "all" else norms
        if not isinstance(entries, list) or "all" not in entries:
            return norms
        unnamed = [norm for norm in choices("norm") if norm not in entries]
        index = entries.index("all")
        return [*entries[:index], *unnamed, *entries[index + 1 :]]

    @model_validator(mode="after")
    def _check_values(self) -> Analysis:
        for option, value in self.options.items():
            if not isinstance(value, str) and value <= 0:
                raise ValueError(f"{option}={value:g}: must be above 0")
        if self.steps is None or self.every is None:
            if self.tasks:
                raise ValueError("steps and every must be set")
            return self
        if self.every > self.steps:
            raise ValueError(f"every={self.every}: nothing is observed in steps={self.steps}")
        self._check_range(self.steps)
        return self

    def _check_range(self, steps: int) -> None:
        """Raise ValueError for options of `landscape` that are no range of probes."""
        options: dict[str, Any] = self.options
        if "probes" not in options:
            return
        probes = options["probes"]
        smallest = options["smallest"]
        largest = options["largest"]
        if probes == 1:
            raise ValueError("probes=1: a range needs two")
        if probes > steps:
            raise ValueError(f"probes={probes}: more than steps={steps}")
        if smallest >= largest:
            raise ValueError(f"smallest={smallest:g}: must be below largest={largest:g}")

    def settings(self) -> dict[str, Any]:
        """Return the settings that the observations depend on, as plain values."""
        settings = {"name": self.name, "steps": self.steps, "every": self.every, **self.options}
        settings["evaluate"] = self.evaluate or None
        return {key: value for key, value in settings.items() if value is not None}


def observers_module(name: str) -> str:
    """Return the import name of the module that observes for an analysis."""
    return f"adanorm.analyses.observers.{name.replace('-', '_')}"


def load_analysis(name: str, values: Mapping[str, str] | None = None) -> Analysis:
    """Return the analysis conf/analysis/<name>.yaml with the user's `values` for its keys.

    Raises ValueError for an unknown analysis, a value that it cannot take, an unknown task or norm.
    """
    hint = f" (`adanorm study {name}` runs the study)" if name in choices("study") else ""
    check_known("analysis", [name], choices("analysis"), hint)
    fields = {"name": name, **read_yaml_file(CONF / "analysis" / f"{name}.yaml")}
    options = fields.get("options", {})
    for key, text in (values or {}).items():
        section = options if key in options else fields
        section[key] = _typed(
            key,
            text,
            options.get(key),
        )
    analysis = Analysis.checked(fields, f"analysis {name}: ")
    module = observers_module(name)
    if find_spec(module) is None:
        raise ValueError(f"analysis {name}: has no module {module}")
    # package.module:Class is imported later.
    norms = [norm for norm in analysis.norms if ":" not in norm]
    known_norms = choices("norm")
    if not {*known_norms}.issuperset(norms):  # installed packages are searched only if needed
        known_norms += outside_norms()
    check_known(
        "task",
        [*analysis.tasks, *analysis.task_overrides],
        choices("task"),
    )
    check_known("norm", norms, known_norms)
    return analysis


def _typed(key: str, text: str, default: Param | None) -> Any:
    """Return a user's text as a value of the default's type; raises ValueError if it is not one."""
    if not text:
        raise ValueError(f"{key}=: needs a value")
    try:
        if default is None:
            return read_yaml(text)
        if isinstance(default, int | float) and not NUMBER.fullmatch(text):
            raise ValueError(text)
        return type(default)(text)
    except ValueError:
        kinds = {int: "must be a whole number", float: "must be a number"}
        raise ValueError(f"{key}={text}: {kinds.get(type(default), 'cannot be read')}") from None


@dataclass(frozen=True)
class AnalysisRecord:
    """One analysis of one run; its identity names its folder."""

    analysis: Analysis
    experiment: Experiment

    @property
    def identity(self) -> dict[str, Any]:
        """All that the observations depend on, as plain values."""
        run = self.experiment.identity
        if not self.analysis.tasks:
            run = {"norm": run["norm"], "seed": run["seed"]}
        return {"analysis": self.analysis.settings(), **run}

    def folder(self) -> Path:
        """Return the folder of the record, which may not exist yet."""
        return self._folder

    @cached_property
    def _folder(self) -> Path:
        run = self.experiment
        analysis = self.analysis
        folder = analyses_folder(run.runs) / analysis.name
        name = f"seed{run.seed}-{digest_of(self.identity)}"
        if not analysis.tasks:
            return folder / run.norm.name / name
        return folder / run.task.name / run.norm.name / f"{run.scale}-{name}"

    def result(self, **facts: Any) -> AnalysisResult:
        """Return the record's result: what it is about, and the `facts` given."""
        run = self.experiment
        if self.analysis.tasks:
            facts = {"task": run.task.name, "scale": run.scale, **facts}
        about = {"analysis": self.analysis.name, "norm": run.norm.name, "seed": run.seed}
        return AnalysisResult.model_validate({**about, **facts})

    @property
    def about(self) -> str:
        """The record in words, such as `gradients rt adanorm seed 1`."""
        run = self.experiment
        task = f" {run.task.name}" if self.analysis.tasks else ""
        return f"{self.analysis.name}{task} {run.norm.name} seed {run.seed}"


# (norm, task) -> the cell's records, one per seed
AnalysisGrid = dict[tuple[str, str], list[AnalysisRecord]]


def analysis_grid(
    analysis: Analysis, *, runs: str | None = None, overrides: Sequence[str] = ()
) -> AnalysisGrid:
    """Return the records of every cell, existing or not; without tasks the task is "".

    `overrides` apply to every run. Raises ValueError if a run's configuration is not valid.
    """
    grid = {}
    for task in analysis.tasks or [""]:
        changes = [*analysis.overrides, *analysis.task_overrides.get(task, ()), *overrides]
        check_fixed(changes)
        base = f"task={task}" if task else UNTUNED
        for norm in analysis.norms:
            settings = [base, f"norm={norm}", f"scale={analysis.scale}", *changes]
            run = cached_experiment(settings, runs=runs)
            grid[norm, task] = [
                AnalysisRecord(analysis, run.model_copy(update={"seed": seed}))
                for seed in analysis.seeds
            ]
    return grid


def analysis_results(cell: Sequence[AnalysisRecord]) -> list[AnalysisResult]:
    """Return the results of those records that have ended."""
    endings = (reader.record(record.folder()).ended for record in cell)
    return [ended for ended in endings if isinstance(ended, AnalysisResult)]


def text(cell: Sequence[AnalysisRecord], quantity: Quantity) -> str:
    """Return a quantity of a cell: mean ± standard deviation over seeds, or yes or no.

    It is `diverges` if a run did, and `-` if there is no run.
    """
    numbers = []
    for record in cell:
        for result in analysis_results([record]):
            if result.status == "diverged":
                return "diverges"
            summary = result.summary
            if quantity.geometric:
                rows = reader.record(record.folder()).rows("rows.jsonl")
                summary, _ = averages(rows, geometric_mean, only=quantity.name)
            if quantity.name in summary:
                numbers.append(summary[quantity.name])
    if not numbers:
        return "-"
    if quantity.yes_within is not None:
        limit = float(cell[0].analysis.options[quantity.yes_within])
        return "yes" if max(numbers) <= limit else "no"
    mean = number(fmean(numbers))
    return f"{mean} ± {number(stdev(numbers))}" if len(numbers) > 1 else mean


def number(value: float) -> str:
    """Return a number as text: 1.234 below 10, four digits below 10,000, else such as 1.2e-05."""
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:.3f}" if abs(value) < 10 else f"{value:.4g}"
    return f"{value:.1e}"


def geometric_mean(numbers: Iterable[float]) -> float:
    """Return the geometric mean of non-negative numbers; 0 if one of them is 0."""
    return math.exp(fmean(math.log(number) if number else -math.inf for number in numbers))


def averages(
    rows: Sequence[dict[str, Any]], mean: Callable[..., float] = fmean, *, only: str | None = None
) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Return each quantity's mean over observations and sites, and its means at each site.

    `only` names the quantity to average; None: all.
    """
    numbers: dict[str, dict[str, list[float]]] = {}  # by site and quantity
    for row in rows:
        for site, values in row["values"].items():
            for name, value in values.items():
                if value is None or only not in (None, name):
                    continue
                series = numbers.setdefault(site, {})
                series.setdefault(name, []).append(value)
    places: dict[str, dict[str, float]] = {}
    over_places: dict[str, list[float]] = {}
    for site, series in numbers.items():
        places[site] = {}
        for name, observed in series.items():
            average = mean(observed)
            places[site][name] = average
            over_places.setdefault(name, []).append(average)
    summary = {name: mean(means) for name, means in over_places.items()}
    return summary, places
