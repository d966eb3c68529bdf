"""What a scorecard says, as plain values: kept beside the page, so that a second start goes on with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from adanorm.files import write_whole
from adanorm.records.sealed import as_json, read_whole, with_checksum

Answer = Literal["better", "worse", "equivalent", "open", "not run"]


class Part(BaseModel):
    """A part of a scorecard."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Cost(Part):
    """What a norm costs on rows of so many features, as ratios to LayerNorm in the same rounds.

    Each ratio is the median over rounds between its quartiles; `kept` are the bytes a row that autograd
    keeps from the forward to the backward pass.
    """

    norm: str
    rows: int
    features: int
    forward: tuple[float, float, float]  # lower quartile, median, upper quartile
    backward: tuple[float, float, float]
    kept: int
    kept_by_layernorm: int


class Gradients(Part):
    """What passes the norms of a task's model in its first updates, a row of means a norm."""

    task: str
    scale: str
    steps: int
    labels: dict[str, str]  # by quantity
    norms: dict[str, dict[str, float]]


class Machine(Part):
    """What cost was measured on."""

    device: str
    threads: int
    packages: dict[str, str | None]
    commit: str | None
    dirty: bool


class Observed(Part):
    """What is seen of a norm before any score.

    `changes` are by change and norm how far the output moves, in units of its root mean square.
    """

    alike: list[str]  # the norms that compute the same
    changes: dict[str, dict[str, float]]
    tolerance: float  # up to which the output does not move
    costs: list[Cost]
    machine: Machine


class Column(Part):
    """A task at a scale, and about how many hours one run of it takes."""

    task: str
    scale: Literal["paper", "mini", "smoke"]
    hours: float


class Side(Part):
    """The runs of a norm in a column: scores by seed in the metric's own unit."""

    norm: str
    scores: dict[int, float]
    diverged: int = 0
    unlearned: int = 0
    failed: int = 0


class Verdict(Part):
    """What the records say of the norm beside another: `gap` is positive where the norm is better.

    `interval` has zero in it unless the norms differ; `closing` says what would decide it.
    """

    other: str
    answer: Answer
    seeds: int
    margin: float
    gap: float | None = None
    interval: tuple[float, float] | None = None
    remark: str = ""
    closing: str = ""


class Score(Part):
    """A column's scores and verdicts."""

    column: Column
    title: str
    metric: str
    higher_is_better: bool
    sides: list[Side]
    verdicts: list[Verdict]


class Card(Part):
    """A scorecard; a part that is not there yet is None. `norm` and `against` are as they are named."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    norm: Annotated[str, Field(pattern=r"^[\w.+:-]{1,200}$")]
    against: Annotated[list[str], Field(min_length=1)]
    identity: Annotated[str, Field(pattern="^[0-9a-f]{8}$")]  # digest of the norms' settings and code
    checks: list[str]  # of the contract, all of which hold
    observed: Observed | None = None
    gradients: Gradients | None = None
    budget: float  # seconds
    spent: float = 0.0
    pace: float = 1.0  # how long runs take here beside what their records and declared costs say
    columns: list[Column] = Field(default=[])
    scores: list[Score] = Field(default=[])
    left_out: list[str] = Field(default=[])  # tasks that the budget has no room for, or no data, a line each
    lacking: list[str] = Field(default=[])  # planned seeds that it turned out to have no room for
    ended: str = ""  # why nothing more is run

    @model_validator(mode="after")
    def _changes_are_of_its_norms(self) -> Card:
        for found in self.observed.changes.values() if self.observed else ():
            if found.keys() != {self.norm, *self.against}:
                raise ValueError("observed.changes: of other norms than the card's")
        return self

    def write(self, path: Path) -> Card:
        """Write the scorecard and return it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        values: dict[str, Any] = json.loads(self.model_dump_json(by_alias=True))
        write_whole(path, as_json(with_checksum(values)))
        return self


def read_card(path: Path, identity: str) -> Card | None:
    """Return the scorecard in a file if it is of these very norms, else None."""
    found = any_card(path)
    return found if found is not None and found.identity == identity else None


def any_card(path: Path) -> Card | None:
    """Return the scorecard in a file, None where there is none."""
    try:
        return Card.model_validate(read_whole(path.read_bytes()))
    except (OSError, ValueError):  # none yet, spoiled or of another version: all in it can be had again
        return None


def short(norm: str) -> str:
    """Return what a norm is called: MyNorm of my_norms:MyNorm."""
    return norm.rpartition(":")[2]
