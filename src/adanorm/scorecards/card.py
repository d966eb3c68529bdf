"""What a scorecard says, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from adanorm.verdicts.cell import Cell
from adanorm.verdicts.pair import Pair


class Cost(NamedTuple):
    """What a norm costs on rows of so many features, as ratios to LayerNorm in the same rounds.

    Each ratio is the lower quartile, the median and the upper quartile over rounds; `kept` are the bytes a
    row that autograd keeps from the forward to the backward pass.
    """

    norm: str
    rows: int
    features: int
    forward: tuple[float, float, float]
    backward: tuple[float, float, float]
    kept: int
    kept_by_layernorm: int


class Column(NamedTuple):
    """A task at a scale, and about how many hours one run of it takes."""

    task: str
    scale: Literal["paper", "mini", "smoke"]
    hours: float


class Observed(NamedTuple):
    """What is seen of a norm before any score.

    `changes` are by change and norm how far the output moves, in units of its root mean square.
    """

    alike: Sequence[str]  # the norms that compute the same
    changes: Mapping[str, Mapping[str, float]]
    tolerance: float  # up to which the output does not move
    costs: Sequence[Cost]
    environment: Mapping[str, Any]  # of this machine


class Score(NamedTuple):
    """The runs of a column by norm, and the norm beside each other norm; `alike` compute the same there."""

    column: Column
    runs: Mapping[str, Cell]
    pairs: Mapping[str, Pair]
    alike: Sequence[str]


class Card(NamedTuple):
    """A scorecard; `norm` and `against` are as they are named, `budget` and `spent` are seconds."""

    norm: str
    against: Sequence[str]
    identity: str  # digest of the norms' settings and code
    checks: Sequence[str]  # of the contract, all of which hold
    observed: Observed
    scores: Sequence[Score]
    not_run: Sequence[str]  # what the budget has no room for, or no data, and why
    budget: float
    spent: float
    ended: str  # why nothing more is run


def short(norm: str) -> str:
    """Return what a norm is called: MyNorm of my_norms:MyNorm."""
    return norm.rpartition(":")[2]
