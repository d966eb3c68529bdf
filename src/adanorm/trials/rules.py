"""The beds of a trial, its tries and its looks: the content of conf/trial.yaml."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PositiveFloat

from adanorm.config.compose import cached_experiment
from adanorm.config.experiment import Experiment
from adanorm.config.paths import CONF, choices
from adanorm.config.sections import Config, Scale, Seeds
from adanorm.config.yaml_file import read_yaml_file
from adanorm.stats.designs import Design
from adanorm.stats.sequential import Looks
from adanorm.studies.rule import RisingLooks
from adanorm.verdicts.plan import Plan

FILE = CONF / "trial.yaml"
REFERENCE = "layernorm"  # what a norm is compared with
Optimizer = Literal["adam", "muon"]
OPTIMIZERS: tuple[Optimizer, ...] = ("adam", "muon")
Two = Annotated[tuple[float, ...], Field(min_length=2, max_length=2)]


class Bed(Config):
    """A task in fixed settings, on which every norm is tried alike."""

    title: str
    task: str
    scale: Scale
    overrides: tuple[str, ...] = ()
    margin: PositiveFloat  # the smallest difference that matters
    quantity: Literal["test", "top3"]
    groups: Design
    minutes: PositiveFloat  # of one core, about; the trial's own runs replace it

    def experiment(self, norm: str, optimizer: Optimizer, *settings: str) -> Experiment:
        """Return the run of a norm in the bed's own settings, with seed 1."""
        overrides = [f"task={self.task}", f"scale={self.scale}", *self.overrides, f"norm={norm}"]
        if optimizer != "adam":
            overrides.append(f"training.optimizer={optimizer}")
        return cached_experiment([*overrides, *settings])


def _one_parameter(parameters: dict[str, dict[str, Two]]) -> dict[str, dict[str, Two]]:
    for norm, values in parameters.items():
        if len(values) != 1:
            raise ValueError(f"{norm}: must name one parameter")
    return parameters


class Rules(Config):
    """How every norm is tried and read."""

    tuning: Seeds
    rates: Annotated[tuple[PositiveFloat, ...], Field(min_length=2)]
    looks: Annotated[RisingLooks, Field(min_length=1)]
    level: Annotated[float, Field(gt=0, lt=0.5)]
    spending: PositiveFloat
    parameters: Annotated[dict[str, dict[str, Two]], AfterValidator(_one_parameter)]
    beds: Annotated[dict[str, Bed], Field(min_length=1)]
    expected: tuple[str, ...] = ()  # norms of the suite that the table names if it lacks them

    @property
    def plan_of_looks(self) -> Looks:
        """The looks; together they spend one error."""
        return Looks(self.looks, self.spending, self.level)

    def plan(self, bed: Bed, seeds: list[int], look: int) -> Plan:
        """Return the plan that reads a bed at one look."""
        return Plan(
            name="trial",
            task=bed.task,
            scale=bed.scale,
            first=seeds[0],
            last=seeds[-1],
            looks=self.plan_of_looks,
            quantity=bed.quantity,
            margin=bed.margin,
            examples="own",
            groups=bed.groups,
            reads=(look,),
            overrides=bed.overrides,
        )

    def tries(self, bed: Bed, parameter: tuple[str, Two] | None) -> list[tuple[str, ...]]:
        """Return the settings that a norm tries on a bed, as overrides, in their order."""
        base = bed.experiment(REFERENCE, "adam").training.lr
        rates = [base * rate for rate in self.rates]
        if parameter is None:
            return [setting_overrides(rate) for rate in rates]
        name, values = parameter
        settings = []
        for rate in rates[: len(rates) // 2]:
            for value in values:
                settings.append(setting_overrides(rate, **{name: value}))
        return settings


def setting_overrides(rate: float, **params: float) -> tuple[str, ...]:
    """Return the overrides of a learning rate and perhaps a parameter of the norm."""
    overrides = [f"training.lr={rate:.12g}"]
    for name, value in params.items():
        overrides.append(f"++norm.params.{name}={value:.12g}")
    return tuple(overrides)


@cache
def load_rules(file: str = "") -> Rules:
    """Return the rules of conf/trial.yaml, or of your own file; ValueError if it is invalid."""
    path = Path(file) if file else FILE
    if not path.is_file():
        raise ValueError(f"beds={file}: no such file")
    rules = Rules.checked(read_yaml_file(path), f"{path.name}: ")
    if len(rules.rates) % 2:
        raise ValueError(
            f"{path.name}: rates: must be even in number, for two values at half of them"
        )
    for name, bed in rules.beds.items():
        if bed.task not in choices("task"):
            raise ValueError(f"{path.name}: bed {name}: no task {bed.task!r}")
    return rules
