"""How a run is computed, its state, its outcome, and its random numbers."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from adanorm.tasks.base import Evaluation
from adanorm.training.distributed import World

Row = dict[str, int | float]


class ComputeContext(NamedTuple):
    """Where and how a run is computed; only `precision` changes what is computed."""

    device: torch.device
    precision: str
    world: World
    checkpoint_seconds: float
    batches_ahead: int = 0  # updates whose batches a thread makes ahead; it would slow a CPU
    compile: str | None = None  # layers: torch compiles them for training
    graphs: bool = False  # whether CUDA graphs replay micro-batches

    def autocast(self, *, enabled: bool = True) -> Any:
        """Return the autocast context of a forward pass, or of a backward pass inside it."""
        if self.precision != "bf16":
            return nullcontext()
        return torch.autocast(
            self.device.type,
            torch.bfloat16,
            enabled=enabled,
        )


def set_tf32(precision: str) -> None:
    """Let CUDA round factors to TF32 only under `tf32`; PyTorch's default does in convolutions.

    Sums of bf16 products are kept in float32, which by default PyTorch may round in between.
    """
    matmul = torch.backends.cuda.matmul
    matmul.allow_tf32 = precision == "tf32"
    matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cudnn.allow_tf32 = precision == "tf32"


@contextmanager
def flushed_denormals() -> Iterator[None]:
    """Have this thread, and those it starts, take numbers below 1.2e-38 for zero on the CPU.

    A processor computes with such denormal numbers many times slower. A network's gradients and
    Adam's means reach them where units are dead or training is unstable.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


@dataclass
class State:
    """The state of a run; losses in nats per unit, loss_sum and loss_units give the next mean."""

    epoch: int = 0
    position: int = 0  # updates done in this epoch
    update: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0  # processor time of the first process, all its threads
    first_loss: float | None = None  # of the first update: the untrained model's
    best_score: float | None = None
    best_update: int = 0
    worse_than_start: int = 0  # evaluations in a row whose training loss is above first_loss
    lowest_of_these: float | None = None  # the lowest training loss of these evaluations
    rows: list[dict[str, Any]] = field(default_factory=list)  # logged, by the first process
    test_rows: list[dict[str, Any]] = field(
        default_factory=list
    )  # one per row, if test scores are tracked
    diverged: str | None = None
    loss_sum: float = 0.0  # since the last evaluation
    loss_units: int = 0
    valid: dict[str, float] = field(default_factory=dict)  # at the best update
    kept: list[tuple[float, int]] = field(
        default_factory=list
    )  # (score, update) of the weights to average

    def mean_loss(self, *, diverge_after: int) -> float:
        """Return the mean training loss since the last evaluation, and start a new mean.

        The run has diverged if its loss is above first_loss at `diverge_after` evaluations in a row
        and no longer falls. A loss that falls may yet recover: first_loss is of one update, perhaps
        an easy one.
        """
        assert self.first_loss is not None
        loss = self.loss_sum / self.loss_units
        self.loss_sum, self.loss_units = 0.0, 0
        if loss <= self.first_loss:
            self.worse_than_start, self.lowest_of_these = 0, None
            return loss
        lowest = self.lowest_of_these
        is_falling = lowest is not None and loss < lowest
        self.worse_than_start += 1
        self.lowest_of_these = loss if lowest is None else min(loss, lowest)
        if self.worse_than_start >= diverge_after and not is_falling:
            self.diverged = (
                f"training loss above its start at {self.worse_than_start} evaluations in a row"
                f" and not falling, the last at update {self.update}"
            )
        return loss


class Outcome(NamedTuple):
    """The outcome of training; `test` is None if it diverged, and on processes but the first."""

    state: State
    test: Evaluation | None
    weights: dict[str, Tensor]


def seed_of(*numbers: int) -> int:
    """Return a seed made of numbers, such as a run's seed and a process's rank."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])


def rng_state(device: torch.device) -> list[Tensor]:
    """Return the states of the generators that a run draws from: the CPU's and its device's."""
    return [
        torch.get_rng_state(),
        *([torch.cuda.get_rng_state(device)] if device.type == "cuda" else []),
    ]


def set_rng_state(states: list[Tensor], device: torch.device) -> None:
    """Set torch's generators to the states that rng_state returned."""
    torch.set_rng_state(states[0])
    if len(states) > 1 and device.type == "cuda":
        torch.cuda.set_rng_state(states[1], device)
