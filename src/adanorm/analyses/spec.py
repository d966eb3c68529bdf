"""Analyses as conf/analysis defines them, the records they make, and summaries of these records."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Any, NamedTuple

from pydantic import Field, field_validator, model_validator

from adanorm.config.compose import UNTUNED, cached_experiment
from adanorm.config.errors import check_known
from adanorm.config.experiment import Experiment
from adanorm.config.outside_norms import outside_norms
from adanorm.config.overrides import check_fixed
from adanorm.config.paths import CONF, analyses_folder, choices
from adanorm.config.sections import Config, EachOnce, Param, Positive, Scale, Seeds
from adanorm.config.yaml_file import read_yaml, read_yaml_file
from adanorm.files import digest_of
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
    """Norms x tasks x seeds at one scale; every `every`-th of the first `steps` updates is observed."""

    name: str
    title: str
    caption: str
    tasks: Annotated[list[str], EachOnce]  # empty: nothing is trained
    norms: Annotated[
        list[str], Field(min_length=1), EachOnce
    ]  # `all` in YAML: every norm not named there
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
        return [norm for entry in entries for norm in (unnamed if entry == "all" else [entry])]

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
        probes, smallest, largest = (
            self.options.get(key) for key in ("probes", "smallest", "largest")
        )
        if isinstance(probes, int) and not 1 < probes <= self.steps:
            reason = "a range needs two" if probes == 1 else f"more than steps={self.steps}"
            raise ValueError(f"probes={probes}: {reason}")
        if isinstance(smallest, float) and isinstance(largest, float) and smallest >= largest:
            raise ValueError(f"smallest={smallest:g}: must be below largest={largest:g}")
        return self

    def settings(self) -> dict[str, Any]:
        """Return the settings that the observations depend on, as plain values."""
        settings = {"name": self.name, "steps": self.steps, "every": self.every, **self.options}
        settings["evaluate"] = self.evaluate or None
        return {key: value for key, value in settings.items() if value is not None}


def observers_module(name: str) -> str:
    """Return the import name of the module that observes for an analysis."""
    return f"adanorm.analyses.observers.{name.replace('-', '_')}"


def load_analysis(name: str, values: Mapping[str, str] | None = None) -> Analysis:
    """Return an analysis by name, with the user's `values`; raises ValueError for a wrong name or value."""
    hint = f" (`adanorm study {name}` runs the study)" if name in choices("study") else ""
    check_known("analysis", [name], choices("analysis"), hint)
    fields = {"name": name, **read_yaml_file(CONF / "analysis" / f"{name}.yaml")}
    options = fields.get("options", {})
    for key, text in (values or {}).items():
        (options if key in options else fields)[key] = _typed(key, text, options.get(key))
    analysis = Analysis.checked(fields, f"analysis {name}: ")
    if find_spec(module := observers_module(name)) is None:
        raise ValueError(f"analysis {name}: has no module {module}")
    norms = [
        norm for norm in analysis.norms if ":" not in norm
    ]  # package.module:Class is imported later
    check_known("task", [*analysis.tasks, *analysis.task_overrides], choices("task"))
    check_known("norm", norms, [*choices("norm"), *outside_norms()])
    return analysis


def _typed(key: str, text: str, default: Param | None) -> Any:
    """Return a user's text as a value of the default's type; raises ValueError if it is not one."""
    if not text:
        raise ValueError(f"{key}=: needs a value")
    try:
        return read_yaml(text) if default is None else type(default)(text)
    except ValueError:
        kinds = {int: "must be a whole number", float: "must be a number"}
        raise ValueError(f"{key}={text}: {kinds.get(type(default), 'cannot be read')}") from None


class AnalysisRecord(NamedTuple):
    """One analysis of one run; its identity names its folder."""

    analysis: Analysis
    experiment: Experiment

    @property
    def identity(self) -> dict[str, Any]:
        """All that the observations depend on, as plain values: the run's identity and the settings."""
        run = self.experiment.identity
        if not self.analysis.tasks:
            run = {key: run[key] for key in ("norm", "seed")}
        return {"analysis": self.analysis.settings(), **run}

    def folder(self) -> Path:
        """Return the folder of the record, which may not exist yet."""
        run, analysis = self.experiment, self.analysis
        folder, digest = analyses_folder(run.runs) / analysis.name, digest_of(self.identity)
        if not analysis.tasks:
            return folder / run.norm.name / f"seed{run.seed}-{digest}"
        return folder / run.task.name / run.norm.name / f"{run.scale}-seed{run.seed}-{digest}"

    def result(self, **facts: Any) -> AnalysisResult:
        """Return the record's result: analysis, norm, seed, task and scale, and the `facts` given."""
        run = self.experiment
        of_run = {"task": run.task.name, "scale": run.scale} if self.analysis.tasks else {}
        about = {"analysis": self.analysis.name, "norm": run.norm.name, "seed": run.seed, **of_run}
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
    """Return the records of every cell, existing or not; the task is "" for an analysis without tasks.

    `overrides` apply to every run. Raises ValueError if a run's configuration is not valid.
    """
    grid: AnalysisGrid = {}
    for task in analysis.tasks or [""]:
        changes = [*analysis.overrides, *analysis.task_overrides.get(task, ()), *overrides]
        check_fixed(changes)
        base = f"task={task}" if task else UNTUNED
        for norm in analysis.norms:
            run = cached_experiment(
                [base, f"norm={norm}", f"scale={analysis.scale}", *changes], runs=runs
            )
            by_seed = (run.model_copy(update={"seed": seed}) for seed in analysis.seeds)
            grid[norm, task] = [AnalysisRecord(analysis, seed_run) for seed_run in by_seed]
    return grid


def analysis_results(cell: Sequence[AnalysisRecord]) -> list[AnalysisResult]:
    """Return the results of those records that have ended."""
    endings = (reader.record(record.folder()).ended for record in cell)
    return [ended for ended in endings if isinstance(ended, AnalysisResult)]


def text(cell: Sequence[AnalysisRecord], quantity: Quantity) -> str:
    """Return a quantity of a cell: mean ± standard deviation over seeds, yes or no, `diverges`, or `-`."""
    ended = analysis_results(cell)
    if any(result.status == "diverged" for result in ended):
        return "diverges"
    summaries = [result.summary for result in ended]
    if quantity.geometric:
        rows = (
            reader.record(one.folder()).rows("rows.jsonl")
            for one in cell
            if analysis_results([one])
        )
        summaries = [averages(of_run, geometric_mean, only=quantity.name)[0] for of_run in rows]
    numbers = [summary[quantity.name] for summary in summaries if quantity.name in summary]
    if not numbers:
        return "-"
    if quantity.yes_within is not None:
        limit = float(cell[0].analysis.options[quantity.yes_within])
        return "yes" if max(numbers) <= limit else "no"
    mean = number(fmean(numbers))
    return f"{mean} ± {number(stdev(numbers))}" if len(numbers) > 1 else mean


def number(value: float) -> str:
    """Return a number as text: three decimals below 10, four digits below 10,000, else such as 1.2e-05."""
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:.3f}" if abs(value) < 10 else f"{value:.4g}"
    return f"{value:.1e}"


def geometric_mean(numbers: Iterable[float]) -> float:
    """Return the geometric mean of non-negative numbers; 0 if one of them is 0."""
    return math.exp(fmean(math.log(number) if number else -math.inf for number in numbers))


def averages(
    rows: Sequence[dict[str, Any]], mean: Callable[..., float] = fmean, *, only: str | None = None
) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Return each quantity's mean over observations and places, and its means at each place."""
    numbers: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        for place, values in row["values"].items():
            for name, value in values.items():
                if value is not None and only in (None, name):
                    numbers.setdefault(place, {}).setdefault(name, []).append(value)
    places = {
        place: {name: mean(of) for name, of in by_name.items()}
        for place, by_name in numbers.items()
    }
    names = dict.fromkeys(name for means in places.values() for name in means)
    summary = {
        name: mean(means[name] for means in places.values() if name in means) for name in names
    }
    return summary, places
