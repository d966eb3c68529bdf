"""What the training loop asks of a task: a model, its batches, their loss and a score."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence, Sized
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from torch import Tensor, nn

from adanorm.config.experiment import Experiment
from adanorm.data.examples import Batches, Examples
from adanorm.data.inspection import Inspection
from adanorm.models import build_model
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


class EpochBatches(Protocol):
    """An epoch's batches; their number is known before they are made."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Any]: ...

    def part(self, index: int, rank: int = 0, world: int = 1) -> Any:
        """Return a batch, or the part of it that one process computes, perhaps an empty one."""


class TrainingTask(ABC):
    """A kind of task with its data loaded; it holds no state of a run."""

    carries: bool = False  # whether the loss of a batch starts from what that before it left

    def __init__(
        self, experiment: Experiment, splits: Mapping[str, Sized], checksums: dict[str, str], **sizes: Any
    ) -> None:
        self.checksums = checksums  # SHA-256 of the data files by name, for the record
        self.sizes = {split: len(part) for split, part in splits.items()}
        self._model, self._seed = experiment.model, experiment.seed
        self._model_sizes = sizes  # which the data decide

    @cached_property
    def inspection(self) -> Inspection:
        """What the data say of a score: counts for the record, and warnings. Asked before training alone."""
        return Inspection({})

    def build_model(self, make_norm: PlacedNorms) -> nn.Module:
        """Return the model with the norms that make_norm makes, initialized from torch's generator."""
        return build_model(self._model, make_norm, **self._model_sizes)

    def train_batches(self, epoch: int) -> EpochBatches:
        """Return the shuffled batches of an epoch; the order depends on seed and epoch alone."""
        train = self.examples["train"]
        return Batches(train.batch, train.order(np.random.default_rng((self._seed, epoch))))

    @cached_property
    def examples(self) -> Mapping[str, Examples]:
        """The examples of each split, where batches are made of such."""
        raise NotImplementedError

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
