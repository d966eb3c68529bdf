"""What the training loop asks of a task: a model, its batches, their loss and a score."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from torch import Tensor, nn

from adanorm.data.inspection import Inspection
from adanorm.models.norm_sites import PlacedNorms


class Loss(NamedTuple):
    """A sum in nats, the units it is over, and what the next batch's loss starts from: a row per stream."""

    total: Tensor
    units: int
    carried: Sequence[Tensor] = ()


class Evaluation(NamedTuple):
    """Metrics by name, and an output line for each example of the split, in its order."""

    metrics: dict[str, float]
    outputs: list[str]
    signatures: dict[str, str] | None = None  # how a metric was counted, where one name has several meanings


class Batches(Protocol):
    """An epoch's batches; their number is known before they are made."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Any]: ...

    def part(self, index: int, rank: int = 0, world: int = 1) -> Any:
        """Return a batch, or the part of it that one process computes, perhaps an empty one."""


class TrainingTask(ABC):
    """A kind of task with its data loaded; it sets `checksums` and `sizes`, and holds no state of a run."""

    checksums: dict[str, str]  # SHA-256 of the data files by name, for the record
    sizes: dict[str, int]  # examples of each split
    carries: bool = False  # whether the loss of a batch starts from what that before it left

    @property
    def inspection(self) -> Inspection:
        """What the data say of a score: counts for the record, and warnings. Asked before training alone."""
        return Inspection({})

    @abstractmethod
    def build_model(self, make_norm: PlacedNorms) -> nn.Module:
        """Return the model with the norms that make_norm makes, initialized from torch's generator."""

    @abstractmethod
    def train_batches(self, epoch: int) -> Batches:
        """Return the training batches of an epoch, the same whenever it is asked."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Any, carried: Sequence[Tensor] = ()) -> Loss:
        """Return a batch's loss: a sum, its units, and what the next starts from: its `carried`."""

    @abstractmethod
    def evaluate(self, model: nn.Module, split: str) -> Evaluation:
        """Return the metrics and outputs of a model, in evaluation mode, on `valid` or `test`.

        On `valid` the metrics hold the task's selection metric; on `test` its own metric.
        """

    def derived(self, train_loss: float) -> dict[str, float]:
        """Return the mean training loss, nats a unit, in units of the metrics, to log as `train_<name>`."""
        return {}

    def baselines(self, split: str) -> dict[str, dict[str, float]]:
        """Return, by name, the metrics on a split of what needs no training, such as the majority class."""
        return {}

    def counted(self, outputs: Sequence[str]) -> dict[str, Sequence[Sequence[float]]]:
        """Return what is counted of each test example by metric, (E, columns), given a run's test outputs.

        Of the metrics that `metrics.by_example` makes of it: paired comparisons of runs need it.
        """
        return {}
