"""Plans written after the first runs had been read, before the first of their own (conf/plans/later.yaml)."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveFloat, model_validator

from adanorm.config.paths import CONF
from adanorm.config.sections import Config, Positive
from adanorm.config.values import read_yaml_file
from adanorm.stats.designs import Design
from adanorm.stats.example_noise import ENOUGH_SEEDS, FLOOR
from adanorm.stats.sequential import Looks
from adanorm.studies.rule import RisingLooks
from adanorm.studies.study import load_study
from adanorm.verdicts.plan import Plan

FILE = "conf/plans/later.yaml"


class Noise(Config):
    """Whose noise of test examples counts; the numbers are those of `stats.example_noise`."""

    of: Literal["pair"]
    shrunk_below: Positive
    floor: PositiveFloat

    @model_validator(mode="after")
    def _is_what_the_statistics_do(self) -> Noise:
        if (self.shrunk_below, self.floor) != (ENOUGH_SEEDS, FLOOR):
            raise ValueError(f"noise: must be shrunk below {ENOUGH_SEEDS}, with floor {FLOOR}")
        return self


class LaterPlan(Config):
    """A plan as it is written in the file, for several data sets."""

    text: str
    scale: str | None = None  # null: the study's
    tasks: list[str] | None = None  # null: those with a margin
    study: str | None = None  # its rows have the settings of the runs
    overrides: tuple[str, ...] = ()
    first: Positive  # the first seed
    looks: Annotated[RisingLooks, Field(min_length=1)]  # numbers of seeds of each norm
    reads: tuple[int, ...] = ()  # none named: all looks
    quantity: Literal["test", "top3"]
    also: Literal["chrf"] | None = None  # a second quantity; each has half of the error
    groups: Design | dict[str, Design]
    margins: dict[str, PositiveFloat]
    chrf_margins: dict[str, PositiveFloat] = Field(default_factory=dict)
    comparisons: tuple[tuple[str, str], ...] = ()  # worse, better; in the order of reading

    @model_validator(mode="after")
    def _reads_its_looks_and_has_margins(self) -> LaterPlan:
        if not {*self.reads} <= {*self.looks}:
            raise ValueError(f"reads {self.reads}: must be some of the looks {self.looks}")
        for margins in (self.margins, self.chrf_margins if self.also else self.margins):
            if {*margins} != {*self.data_sets}:
                raise ValueError(f"margins of {', '.join(margins)}: must be those of its tasks")
        return self

    @property
    def data_sets(self) -> list[str]:
        """The names of the tasks that the plan reads."""
        return self.tasks or [*self.margins]


class LaterPlans(Config):
    """The content of conf/plans/later.yaml."""

    level: Annotated[float, Field(gt=0, lt=0.5)]
    spending: PositiveFloat
    noise: Noise
    decisions: Literal["stand"]
    plans: dict[str, LaterPlan]
    summary: dict[str, Any]  # text for readers, with the two norms that it compares

    @property
    def norms_of_summary(self) -> tuple[str, str]:
        """The two norms that the summary over data sets compares: the second with the first."""
        worse, better = self.summary["norms"]
        return worse, better

    def plan(self, name: str, task: str, quantity: Literal["chrf"] | None = None) -> Plan:
        """Return a plan of a task, by its own quantity or by the second one."""
        entry = self.plans[name]
        level = self.level / 2 if entry.also else self.level
        margins = entry.chrf_margins if quantity else entry.margins
        groups = entry.groups if isinstance(entry.groups, str) else entry.groups[task]
        scale = entry.scale
        overrides = entry.overrides
        if entry.study is not None:
            study = load_study(entry.study)
            scale = scale or study.scale
            overrides = (*overrides, *study.overrides)
        assert scale is not None, "a plan without a scale has a study"
        return Plan(
            name=name,
            task=task,
            scale=scale,
            first=entry.first,
            last=entry.first + entry.looks[-1] - 1,
            looks=Looks(entry.looks, self.spending, level),
            quantity=quantity or entry.quantity,
            margin=margins[task],
            examples="own",
            decision="stands",
            groups=groups,
            reads=entry.reads,
            overrides=overrides,
        )

    def newest_first(self, task: str) -> list[Plan]:
        """Return the plans that read a task's runs in its scale's own settings or with overrides."""
        names = [
            name
            for name, entry in self.plans.items()
            if task in entry.data_sets and entry.study is None and entry.scale != "open"
        ]
        return [self.plan(name, task) for name in reversed(names)]


@cache
def later_plans() -> LaterPlans:
    """Return the content of conf/plans/later.yaml; raises ValueError for an invalid value."""
    return LaterPlans.checked(read_yaml_file(CONF / "plans" / "later.yaml"), f"{FILE}: ")
