"""The beds of a trial, its tries and its looks: the content of conf/trial.yaml."""

from functools import cache
from itertools import product
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, PositiveFloat

from adanorm.config.compose import cached_experiment
from adanorm.config.experiment import Experiment
from adanorm.config.paths import CONF
from adanorm.config.sections import Config, Scale, Seeds
from adanorm.config.values import read_yaml_file
from adanorm.stats.designs import Design
from adanorm.stats.sequential import Looks
from adanorm.studies.rule import RisingLooks
from adanorm.verdicts.plan import Plan

FILE = CONF / "trial.yaml"
REFERENCE = "layernorm"  # what a norm is compared with
Optimizer = Literal["adam", "muon"]
OPTIMIZERS: tuple[Optimizer, ...] = ("adam", "muon")
# The parameter that a norm names, and the two values of it that are tried, each at the first half
# of the rates.
TwoValues = Annotated[tuple[float, ...], Field(min_length=2, max_length=2)]
Parameter = Annotated[dict[str, TwoValues], Field(min_length=1, max_length=1)]


class Setting(NamedTuple):
    """What a norm is tried with: a learning rate, and perhaps the parameter that it names."""

    rate: float
    value: float | None = None


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

    def command_line(self, norm: str, *settings: str, optimizer: Optimizer = "adam") -> list[str]:
        """Return the overrides of a norm's run on the bed."""
        overrides = [f"task={self.task}", f"scale={self.scale}", *self.overrides, f"norm={norm}"]
        if optimizer != "adam":
            overrides.append(f"training.optimizer={optimizer}")
        return [*overrides, *settings]

    def experiment(self, norm: str, *settings: str, optimizer: Optimizer = "adam") -> Experiment:
        """Return the run of a norm on the bed, with seed 1."""
        return cached_experiment(self.command_line(norm, *settings, optimizer=optimizer))


class Rules(Config):
    """How every norm is tried and read."""

    tuning: Seeds
    rates: Annotated[tuple[PositiveFloat, ...], Field(min_length=2)]
    looks: Annotated[RisingLooks, Field(min_length=1)]
    level: Annotated[float, Field(gt=0, lt=0.5)]
    spending: PositiveFloat
    parameters: dict[str, Parameter]
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

    def tries(self, bed: Bed, parameter: tuple[str, TwoValues] | None) -> list[Setting]:
        """Return the settings that a norm tries on a bed: as many as there are rates.

        A norm that names a parameter tries its two values at the first rates.
        """
        base = bed.experiment(REFERENCE).training.lr
        values = (None,) if parameter is None else parameter[1]
        settings = []
        for rate, value in product(self.rates, values):
            # As the command line of a run has it.
            settings.append(Setting(float(f"{base * rate:.12g}"), value))
        return settings[: len(self.rates)]


@cache
def load_rules(file: str = "") -> Rules:
    """Return the rules of conf/trial.yaml, or of your own file; ValueError if it is invalid."""
    path = Path(file) if file else FILE
    if not path.is_file():
        raise ValueError(f"beds={file}: no such file")
    return Rules.checked(read_yaml_file(path), f"{path.name}: ")
