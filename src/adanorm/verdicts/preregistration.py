"""What was written down before the runs: claims, margins, and when runs stop (conf/claims/paper.yaml)."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, PositiveFloat, model_validator

from adanorm.config.paths import CONF
from adanorm.config.sections import Config, Positive
from adanorm.config.yaml_file import read_yaml_file
from adanorm.files import digest_of
from adanorm.stats.sequential import Looks
from adanorm.studies.rule import Compares, Look, Margin, RisingLooks

Norms: TypeAlias = tuple[str, str]  # worse, better: the second is compared with the first
Tasks = Annotated[list[str], Field(min_length=1)]


class ClaimAtScale(Config):
    """The tasks on which a scale's runs can show a claim (null: all), and settings other than the scale's."""

    tasks: Tasks | None = None
    overrides: dict[str, list[str]] | None = None


class Claim(Config):
    """One claim: `better` does better than `worse` on `at_least` of `tasks` or more; null: on all."""

    id: str
    text: str
    source: str
    better: str | dict[str, str]
    worse: str | dict[str, str]
    bound: Literal["better", "no_worse"] = "better"
    quantity: Compares = "test"
    tasks: Tasks
    at_least: Positive | None = None
    at: dict[str, ClaimAtScale] | None = None  # by scale; other scales show it on all tasks

    def _at_scale(self, scale: str) -> ClaimAtScale:
        return (self.at or {}).get(scale, ClaimAtScale())

    def tasks_at(self, scale: str) -> list[str]:
        """Return the tasks on which the runs of a scale can show the claim."""
        return self._at_scale(scale).tasks or self.tasks

    def overrides(self, scale: str, task: str) -> tuple[str, ...]:
        """Return the settings in which the runs that can show it on a task differ from the scale's own."""
        return tuple((self._at_scale(scale).overrides or {}).get(task, ()))

    def norms(self, task: str) -> tuple[str, str]:
        """Return the norm that is claimed to be better on a task, and the worse one."""
        better, worse = (n if isinstance(n, str) else n[task] for n in (self.better, self.worse))
        return better, worse

    def needed(self, scale: str) -> int:
        """Return on how many tasks of a scale the claim must hold."""
        return self.at_least or len(self.tasks_at(scale))

    @model_validator(mode="after")
    def _names_tasks_that_it_has(self) -> Claim:
        for scale, at_scale in (self.at or {}).items():
            for task in {*(at_scale.tasks or ()), *(at_scale.overrides or ())} - {*self.tasks}:
                raise ValueError(f"claim {self.id}: {task} at {scale}, of {', '.join(self.tasks)}")
        for tasks in (self.tasks, *map(self.tasks_at, self.at or ())):
            if (self.at_least or 1) > len(tasks):
                raise ValueError(
                    f"claim {self.id}: at_least {self.at_least}, of {len(tasks)} tasks"
                )
        return self


class Stopping(Config):
    """The seeds planned per cell, the most that are ever read, and how fast the error is spent."""

    planned: Look
    most: Positive
    spending: PositiveFloat

    @property
    def looks(self) -> tuple[int, ...]:
        """The numbers of seeds after which a comparison is read: every one from `planned` to `most`."""
        return tuple(range(self.planned, self.most + 1))


class Plan(Config):
    """A plan of seeds that decides comparisons of two norms: which runs it reads, how, and when."""

    text: str
    scale: Literal["paper", "small"]
    tasks: Tasks
    first: Positive  # the first seed
    looks: Annotated[
        RisingLooks, Field(min_length=1)
    ]  # numbers of shared seeds after which it is read
    spending: PositiveFloat
    quantity: Literal["test", "top3"]
    margins: dict[str, PositiveFloat]
    folds: Positive | None = None  # `data.fold` from 1 on: a gap is a fold's mean over seeds
    overlap: PositiveFloat | None = None  # test examples per training example


class Preregistration(Config):
    """The content of conf/claims/paper.yaml."""

    level: Annotated[float, Field(gt=0, lt=0.5)]
    power: Annotated[float, Field(gt=0, lt=1)]
    norms: list[str]
    prior_df_at_most: PositiveFloat
    stopping: Stopping
    plans: dict[str, Plan]
    small: list[str]
    margins: dict[str, Margin]
    claims: list[Claim]

    @model_validator(mode="after")
    def _every_comparison_has_a_margin(self) -> Preregistration:
        for claim in self.claims:
            if lacking := [
                task for task in claim.tasks if self.margin(task, claim.quantity) is None
            ]:
                raise ValueError(f"claim {claim.id}: no margin of {claim.quantity} on {lacking[0]}")
        return self

    def looks_of(self, plan: str | None) -> Looks:
        """Return the looks of a plan; None: those of the first plan, for more seeds than planned."""
        chosen = self.plans[plan] if plan else self.stopping
        return Looks(chosen.looks, chosen.spending, self.level, self.power)

    def plan_of(self, task: str, scale: str) -> str | None:
        """Return the name of the plan that reads a task for claims at a scale; None: the first plan."""
        plans = self.plans.items() if scale == "small" else ()
        return next((name for name, plan in plans if task in plan.tasks), None)

    def margin(self, task: str, quantity: str, plan: str | None = None) -> float | None:
        """Return the smallest difference that matters (for scores, the plan's own if it has one), or None."""
        own = (
            self.plans[plan].margins.get(task)
            if plan and not quantity.startswith("last_")
            else None
        )
        return own or (self.margins[task].of(quantity) if task in self.margins else None)

    def quantity_read(self, quantity: Compares, plan: str | None) -> Compares:
        """Return the quantity that a plan reads: its own for the test score, otherwise the one compared."""
        return self.plans[plan].quantity if plan and quantity == "test" else quantity

    def scale_of(self, task: str, scale: str) -> str:
        """Return the scale of the deciding runs: `paper`, not `small`, if a CPU can train the task at it."""
        return "paper" if scale == "small" and task not in self.small else scale

    @property
    def digest(self) -> str:
        """Eight hexadecimal digits that identify the file's content without its comments."""
        return digest_of(self.model_dump(mode="json", exclude_none=True))


@cache
def preregistration() -> Preregistration:
    """Return the content of conf/claims/paper.yaml; raises ValueError for an invalid value."""
    return Preregistration.checked(
        read_yaml_file(CONF / "claims" / "paper.yaml"), "conf/claims/paper.yaml: "
    )


def drawn_claim(claim: Claim) -> Claim | None:
    """Return the claim whose figure shows this one too: the first on test scores with its norms; or None."""
    tested = (one for one in preregistration().claims if one.quantity == claim.quantity == "test")
    return next(
        (one for one in tested if (one.better, one.worse) == (claim.better, claim.worse)), None
    )


def claimed_pairs(task: str) -> list[Norms]:
    """Return the pairs of norms that claims on a task's test score compare, the worse first."""
    claims = [c for c in preregistration().claims if c.quantity == "test" and task in c.tasks]
    return list(dict.fromkeys((worse, better) for better, worse in (c.norms(task) for c in claims)))
