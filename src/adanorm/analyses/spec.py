"""Analyses: what is observed and in what runs, written once in conf/analysis, and what its records say."""

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
    """A number of the records as it is shown, in the table and in the figure under `label`."""

    name: str
    label: str
    log: bool = False
    geometric: bool = False  # whether its means are: of sizes that lie orders of magnitude apart
    panel: bool = True  # whether the figure has a panel of it
    beside: str | None = None  # another quantity, drawn as a thin grey line in the same panel
    yes_within: str | None = None  # an option: up to its value the table says yes, beyond it no


class Analysis(Config):
    """Norms x tasks x seeds at one scale, and what is observed at every `every`-th of `steps` updates."""

    name: str
    title: str
    caption: str
    tasks: Annotated[list[str], EachOnce]  # none: nothing is trained
    norms: Annotated[list[str], Field(min_length=1), EachOnce]  # in YAML `all`: every one that is not named
    scale: Scale = "mini"
    seeds: Seeds = Field(default=[1])
    steps: Positive | None = None
    every: Positive | None = None
    evaluate: bool = False  # whether the validation score at the end is recorded
    overrides: tuple[str, ...] = ()  # of every run, in Hydra's syntax
    task_overrides: dict[str, tuple[str, ...]] = Field(default={})  # of every run of a task
    options: dict[str, Param] = Field(default={})  # of the observing function
    shown: Annotated[list[Quantity], Field(min_length=1)]

    @field_validator("norms", mode="before")
    @classmethod
    def _all_are_the_others(cls, norms: Any) -> Any:
        named = ["all"] if norms == "all" else norms
        if not isinstance(named, list) or "all" not in named:
            return norms
        others = [norm for norm in choices("norm") if norm not in named]
        return [norm for entry in named for norm in (others if entry == "all" else [entry])]

    @model_validator(mode="after")
    def _observes_something(self) -> Analysis:
        for option, value in self.options.items():
            if not isinstance(value, str) and value <= 0:
                raise ValueError(f"{option}={value:g}: must be above 0")
        if self.steps is None or self.every is None:
            if self.tasks:
                raise ValueError("steps and every must be set")
            return self
        if self.every > self.steps:
            raise ValueError(f"every={self.every}: nothing is observed in steps={self.steps}")
        probes, smallest, largest = (self.options.get(key) for key in ("probes", "smallest", "largest"))
        if isinstance(probes, int) and not 1 < probes <= self.steps:
            reason = "a range needs two" if probes == 1 else f"more than steps={self.steps}"
            raise ValueError(f"probes={probes}: {reason}")
        if isinstance(smallest, float) and isinstance(largest, float) and smallest >= largest:
            raise ValueError(f"smallest={smallest:g}: must be below largest={largest:g}")
        return self

    def settings(self) -> dict[str, Any]:
        """Return what makes its observations what they are, as plain values."""
        settings = {"name": self.name, "steps": self.steps, "every": self.every, **self.options}
        settings["evaluate"] = self.evaluate or None
        return {key: value for key, value in settings.items() if value is not None}


def observers_module(name: str) -> str:
    """Return the name of the module that makes an analysis."""
    return f"adanorm.analyses.observers.{name.replace('-', '_')}"


def load_analysis(name: str, given: Mapping[str, str] | None = None) -> Analysis:
    """Return the analysis of a name, with the user's `given` values; ValueError for one it cannot take."""
    hint = f" (`adanorm study {name}` runs the study)" if name in choices("study") else ""
    check_known("analysis", [name], choices("analysis"), hint)
    values = {"name": name, **read_yaml_file(CONF / "analysis" / f"{name}.yaml")}
    options = values.get("options", {})
    for key, text in (given or {}).items():
        (options if key in options else values)[key] = _typed(key, text, options.get(key))
    analysis = Analysis.checked(values, f"analysis {name}: ")
    if find_spec(module := observers_module(name)) is None:
        raise ValueError(f"analysis {name}: has no module {module}")
    norms = [norm for norm in analysis.norms if ":" not in norm]  # package.module:Class is looked for later
    check_known("task", [*analysis.tasks, *analysis.task_overrides], choices("task"))
    check_known("norm", norms, [*choices("norm"), *outside_norms()])
    return analysis


def _typed(key: str, text: str, default: Param | None) -> Any:
    """Return a user's value for a key, of the type that an option has; raises ValueError for another."""
    if not text:
        raise ValueError(f"{key}=: needs a value")
    try:
        return read_yaml(text) if default is None else type(default)(text)
    except ValueError:
        kinds = {int: "must be a whole number", float: "must be a number"}
        raise ValueError(f"{key}={text}: {kinds.get(type(default), 'cannot be read')}") from None


class AnalysisRecord(NamedTuple):
    """One analysis of one run: its identity and its folder."""

    analysis: Analysis
    experiment: Experiment

    @property
    def identity(self) -> dict[str, Any]:
        """What the observations depend on, as plain values: the run's identity and the settings."""
        run = self.experiment.identity
        if not self.analysis.tasks:
            run = {key: run[key] for key in ("norm", "seed")}
        return {"analysis": self.analysis.settings(), **run}

    def folder(self) -> Path:
        """Return the folder of the record; it need not exist."""
        run, analysis = self.experiment, self.analysis
        folder, digest = analyses_folder(run.runs) / analysis.name, digest_of(self.identity)
        if not analysis.tasks:
            return folder / run.norm.name / f"seed{run.seed}-{digest}"
        return folder / run.task.name / run.norm.name / f"{run.scale}-seed{run.seed}-{digest}"

    def result(self, **ended: Any) -> AnalysisResult:
        """Return what the record comes to: what it is of, and what `ended` says."""
        run = self.experiment
        of_run = {"task": run.task.name, "scale": run.scale} if self.analysis.tasks else {}
        known = {"analysis": self.analysis.name, "norm": run.norm.name, "seed": run.seed, **of_run}
        return AnalysisResult.model_validate({**known, **ended})

    @property
    def about(self) -> str:
        """What a person calls it."""
        run = self.experiment
        task = f" {run.task.name}" if self.analysis.tasks else ""
        return f"{self.analysis.name}{task} {run.norm.name} seed {run.seed}"


# (norm, task) -> its records, one a seed
AnalysisGrid = dict[tuple[str, str], list[AnalysisRecord]]


def analysis_grid(
    analysis: Analysis, *, runs: str | None = None, overrides: Sequence[str] = ()
) -> AnalysisGrid:
    """Return the records of every cell, made or not; without tasks the column is named "".

    `overrides` are of every run. Raises ValueError as composing does.
    """
    grid: AnalysisGrid = {}
    for task in analysis.tasks or [""]:
        changes = [*analysis.overrides, *analysis.task_overrides.get(task, ()), *overrides]
        check_fixed(changes)
        named = f"task={task}" if task else UNTUNED
        for norm in analysis.norms:
            run = cached_experiment([named, f"norm={norm}", f"scale={analysis.scale}", *changes], runs=runs)
            by_seed = (run.model_copy(update={"seed": seed}) for seed in analysis.seeds)
            grid[norm, task] = [AnalysisRecord(analysis, one) for one in by_seed]
    return grid


def analysis_results(cell: Sequence[AnalysisRecord]) -> list[AnalysisResult]:
    """Return the results of the records that have ended."""
    endings = (reader.record(record.folder()).ended for record in cell)
    return [ended for ended in endings if isinstance(ended, AnalysisResult)]


def text(cell: Sequence[AnalysisRecord], quantity: Quantity) -> str:
    """Return a quantity of a cell: its mean ± standard deviation over seeds, `diverges`, or `-`."""
    ended = analysis_results(cell)
    if any(result.status == "diverged" for result in ended):
        return "diverges"
    summaries = [result.summary for result in ended]
    if quantity.geometric:
        records = [reader.record(record.folder()) for record in cell if analysis_results([record])]
        rows = [record.rows("rows.jsonl") for record in records]
        summaries = [averages(of, geometric_mean, only=quantity.name)[0] for of in rows]
    numbers = [summary[quantity.name] for summary in summaries if quantity.name in summary]
    if not numbers:
        return "-"
    if quantity.yes_within is not None:
        limit = float(cell[0].analysis.options[quantity.yes_within])
        return "yes" if max(numbers) <= limit else "no"
    mean = number(fmean(numbers))
    return f"{mean} ± {number(stdev(numbers))}" if len(numbers) > 1 else mean


def number(value: float) -> str:
    """Return a number with three digits that count, however large or small it is."""
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:.3f}" if abs(value) < 10 else f"{value:.4g}"
    return f"{value:.1e}"


def geometric_mean(numbers: Iterable[float]) -> float:
    """Return the geometric mean of numbers that are not negative, 0 where one of them is."""
    return math.exp(fmean(math.log(number) if number else -math.inf for number in numbers))


def averages(
    rows: Sequence[dict[str, Any]], mean: Callable[..., float] = fmean, *, only: str | None = None
) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Return each quantity's mean over observations: over the places it is known at, and at each of them."""
    seen: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        for place, values in row["values"].items():
            for name, value in values.items():
                if value is not None and only in (None, name):
                    seen.setdefault(place, {}).setdefault(name, []).append(value)
    places = {place: {name: mean(of) for name, of in found.items()} for place, found in seen.items()}
    names = dict.fromkeys(name for means in places.values() for name in means)
    summary = {name: mean(means[name] for means in places.values() if name in means) for name in names}
    return summary, places
