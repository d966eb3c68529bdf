"""What was written down before the runs: claims, margins, and when runs stop (conf/claims/paper.yaml)."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator

from adanorm.config.digest import digest_of
from adanorm.config.experiment import first_problem
from adanorm.config.paths import CONF
from adanorm.config.sections import Config, Positive
from adanorm.config.yaml_file import read_yaml_file

Above = Annotated[float, Field(gt=0)]


class Claim(Config):
    """One claim: `better` does better than `worse` on at least so many of `tasks`; null: on all."""

    id: str
    text: str
    source: str
    better: str | dict[str, str]
    worse: str | dict[str, str]
    bound: Literal["better", "no_worse"] = "better"
    quantity: Literal["test", "last_train_loss", "last_valid_loss"] = "test"
    tasks: Annotated[list[str], Field(min_length=1)]
    at_least: Positive | None = None

    def norms(self, task: str) -> tuple[str, str]:
        """Return the norm that is claimed to be better on a task, and the worse."""
        better, worse = (n if isinstance(n, str) else n[task] for n in (self.better, self.worse))
        return better, worse

    @property
    def needed(self) -> int:
        """On how many of its tasks the claim must hold."""
        return self.at_least or len(self.tasks)

    @model_validator(mode="after")
    def _needs_no_more_tasks_than_it_has(self) -> Claim:
        if self.needed > len(self.tasks):
            raise ValueError(f"claim {self.id}: at_least {self.at_least}, of {len(self.tasks)} tasks")
        return self


class Margin(Config):
    """The smallest difference that matters on a task: of its score, and of a loss in nats."""

    test: Above
    loss: Above | None = None
    reason: str


class Stopping(Config):
    """Seeds planned of each cell, the most that are ever read, and how fast the error is spent."""

    planned: Annotated[int, Field(ge=2)]
    most: Positive
    spending: Above


class Preregistration(Config):
    """The whole of the file."""

    level: Annotated[float, Field(gt=0, lt=0.5)]
    power: Annotated[float, Field(gt=0, lt=1)]
    norms: list[str]
    prior_df_at_most: Above
    stopping: Stopping
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
        """Return the smallest difference that matters, or None where the task has none."""
        found = self.margins.get(task)
        return None if found is None else found.test if quantity == "test" else found.loss

    @property
    def digest(self) -> str:
        """Eight hexadecimal digits that identify what was written, but for its comments."""
        return digest_of(self.model_dump(mode="json", exclude_none=True))


@cache
def preregistration() -> Preregistration:
    """Return the content of conf/claims/paper.yaml; raises ValueError where a value cannot be."""
    path = CONF / "claims" / "paper.yaml"
    try:
        return Preregistration.model_validate(read_yaml_file(path))
    except ValidationError as error:
        raise ValueError(f"conf/claims/paper.yaml: {first_problem(error)}") from None
