"""What was written down before the runs: claims, margins and plans (conf/claims/paper.yaml)."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, PositiveFloat, model_validator

from adanorm.config.paths import CONF
from adanorm.config.sections import Config, Positive
from adanorm.config.values import digest_of, read_yaml_file
from adanorm.stats.sequential import Looks
from adanorm.studies.rule import Compares, Look, Margin, RisingLooks
from adanorm.verdicts.plan import Plan
from adanorm.verdicts.quantities import Quantity

Norms: TypeAlias = tuple[str, str]  # two norms
Tasks = Annotated[list[str], Field(min_length=1)]


class ClaimAtScale(Config):
    """The tasks on which a scale's runs can show a claim; null: all."""

    tasks: Tasks | None = None


class Claim(Config):
    """One claim: `better` does better than `worse` on `at_least` of `tasks` or more.

    Null: on all.
    """

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

    def tasks_at(self, scale: str) -> list[str]:
        """Return the tasks on which the runs of a scale can show the claim."""
        at_scale = (self.at or {}).get(scale)
        return (at_scale and at_scale.tasks) or self.tasks

    def norms(self, task: str) -> Norms:
        """Return the norm that is claimed to be better on a task, and the worse one."""
        better, worse = (n if isinstance(n, str) else n[task] for n in (self.better, self.worse))
        return better, worse

    def needed(self, scale: str) -> int:
        """Return on how many tasks of a scale the claim must hold."""
        return self.at_least or len(self.tasks_at(scale))

    @model_validator(mode="after")
    def _names_tasks_that_it_has(self) -> Claim:
        for scale, at_scale in (self.at or {}).items():
            for task in {*(at_scale.tasks or ())} - {*self.tasks}:
                raise ValueError(f"claim {self.id}: {task} at {scale}, of {', '.join(self.tasks)}")
        for tasks in (self.tasks, *map(self.tasks_at, self.at or ())):
            if (self.at_least or 1) > len(tasks):
                raise ValueError(
                    f"claim {self.id}: at_least {self.at_least}, of {len(tasks)} tasks"
                )
        return self


class Stopping(Config):
    """The first plan: seeds per cell, the most that are ever read, how the error is spent."""

    planned: Look
    most: Positive
    spending: PositiveFloat


class PlanEntry(Config):
    """A plan after the first, as it is written in the file: for several data sets."""

    text: str
    scale: Literal["paper", "small"]
    tasks: Tasks
    first: Positive  # the first seed
    looks: Annotated[RisingLooks, Field(min_length=1)]  # numbers of shared seeds
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
    plans: dict[str, PlanEntry]
    small: list[str]  # the tasks of plans at scale small
    margins: dict[str, Margin]
    claims: list[Claim]

    @model_validator(mode="after")
    def _every_comparison_has_a_margin(self) -> Preregistration:
        for claim in self.claims:
            for task in claim.tasks:
                if self.margin(task, claim.quantity) is None:
                    raise ValueError(f"claim {claim.id}: no margin of {claim.quantity} on {task}")
        return self

    def margin(self, task: str, quantity: str) -> float | None:
        """Return the smallest difference that matters in the first plan, or None."""
        return self.margins[task].of(quantity) if task in self.margins else None

    def looks_of(self, name: str) -> Looks:
        """Return the looks of a plan: `first`, or one of `plans`."""
        if name == "first":
            after = tuple(range(self.stopping.planned, self.stopping.most + 1))
            spending = self.stopping.spending
        else:
            after = self.plans[name].looks
            spending = self.plans[name].spending
        return Looks(
            after,
            spending,
            self.level,
            self.power,
        )

    def plans_of(self, task: str, quantity: Quantity = "test") -> list[Plan]:
        """Return the plans of a task: the first, then those written after it."""
        names = [name for name, entry in self.plans.items() if task in entry.tasks]
        return [self.plan(name, task, quantity) for name in ("first", *names)]

    def plan(self, name: str, task: str, quantity: Quantity = "test") -> Plan:
        """Return a plan of a task.

        A later one reads its own quantity where the first reads test scores.
        """
        margin = self.margin(task, quantity)
        looks = self.looks_of(name)
        if name == "first":
            return Plan(
                name=name,
                task=task,
                scale="paper",
                first=1,
                last=self.stopping.most,
                looks=looks,
                quantity=quantity,
                margin=margin or 0.0,
                planned=self.stopping.planned,
                examples="claimed pairs",
            )
        entry = self.plans[name]
        if not quantity.startswith("last_"):
            margin = entry.margins.get(task, margin)
        return Plan(
            name=name,
            task=task,
            scale=entry.scale,
            first=entry.first,
            last=entry.first + entry.looks[-1] - 1,
            looks=looks,
            quantity=entry.quantity if quantity == "test" else quantity,
            margin=margin or 0.0,
            folds=entry.folds or 0,
            overlap=entry.overlap or 0.0,
        )

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


@cache
def submitted_claims() -> list[Claim]:
    """Return the softer claims of conf/claims/submission.yaml, written after the runs were read."""
    entries = read_yaml_file(CONF / "claims" / "submission.yaml", list)
    return [Claim.checked(entry, "conf/claims/submission.yaml: ") for entry in entries]


def first_plan(task: str, scale: str = "paper", quantity: Quantity = "test") -> Plan:
    """Return the first plan of a task, as it reads the runs of any scale."""
    plan = preregistration().plan(
        "first",
        task,
        quantity,
    )
    return replace(plan, scale=scale)


def drawn_claim(claim: Claim) -> Claim | None:
    """Return the claim whose figure shows this one too: the first on test scores with its norms.

    Or None.
    """
    for registered in preregistration().claims:
        has_its_norms = (registered.better, registered.worse) == (claim.better, claim.worse)
        if registered.quantity == claim.quantity == "test" and has_its_norms:
            return registered
    return None


def claimed_pairs(task: str) -> list[Norms]:
    """Return the pairs of norms that claims on a task's test score compare, the worse first."""
    pairs: dict[Norms, None] = {}
    for claim in preregistration().claims:
        if claim.quantity == "test" and task in claim.tasks:
            better, worse = claim.norms(task)
            pairs[worse, better] = None
    return [*pairs]
