"""What the training loop needs from a task: a model, batches, their loss and a score."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence, Sized
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from torch import Tensor, nn

from adanorm.config.experiment import Experiment
from adanorm.data.examples import Batches, Examples, Movable
from adanorm.data.inspection import Inspection
from adanorm.models import build_model
from adanorm.models.norm_sites import PlacedNorms

AnyBatch = Movable  # a batch of any task, whose tensors move to a device together


class Loss(NamedTuple):
    """The summed loss in nats, the number of its units, the next batch's state: a row per stream."""

    total: Tensor
    units: int
    carried: Sequence[Tensor] = ()


class Evaluation(NamedTuple):
    """Metrics by name, and one output line per example, in the order of the split."""

    metrics: dict[str, float]
    outputs: list[str]
    signatures: dict[str, str] | None = (
        None  # how a metric is computed, where its name is ambiguous
    )


class EpochBatches(Protocol):
    """The batches of an epoch; their number is known before they are made."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Any]: ...

    def part(self, index: int, rank: int = 0, world: int = 1) -> Any:
        """Return one batch, or the part of it that one process computes; the part may be empty."""


class TrainingTask(ABC):
    """A kind of task with its data loaded; the state of a run is kept elsewhere."""

    carries: bool = False  # whether a batch's loss starts from the state that the last batch left

    def __init__(
        self,
        experiment: Experiment,
        splits: Mapping[str, Sized],
        checksums: dict[str, str],
        **sizes: Any,
    ) -> None:
        self.checksums = checksums  # SHA-256 of the data files by name, for the record
        self.sizes = {split: len(part) for split, part in splits.items()}
        self._model, self._seed = experiment.model, experiment.seed
        self._model_sizes = sizes  # arguments of the model that depend on the data

    @cached_property
    def inspection(self) -> Inspection:
        """Counts of the data for the record, and warnings; needed only before training."""
        return Inspection({})

    def build_model(self, make_norm: PlacedNorms) -> nn.Module:
        """Return the model with norms made by `make_norm`, initialized from torch's generator."""
        return build_model(self._model, make_norm, **self._model_sizes)

    def train_batches(self, epoch: int) -> EpochBatches:
        """Return the shuffled batches of an epoch; their order depends only on seed and epoch."""
        train = self.examples["train"]
        return Batches(train.batch, train.order(np.random.default_rng((self._seed, epoch))))

    @cached_property
    def examples(self) -> Mapping[str, Examples]:
        """The examples by split, for tasks whose batches are made of examples."""
        raise NotImplementedError

    @abstractmethod
    def loss(self, model: nn.Module, batch: Any, carried: Sequence[Tensor] = ()) -> Loss:
        """Return a batch's summed loss, its units, and the state that the next batch is given."""

    @abstractmethod
    def evaluate(self, model: nn.Module, split: str) -> Evaluation:
        """Return the metrics and outputs of a model on `valid` or `test`.

        The model is in evaluation mode. The metrics contain the task's selection metric on `valid`,
        and the task's own metric on `test`.
        """

    def predict(self, model: nn.Module, entries: Sequence[Any], **options: Any) -> list[str]:
        """Return a model's text for each entry of a text, if the task reads text of any origin."""
        raise NotImplementedError

    def derived(self, train_loss: float) -> dict[str, float]:
        """Return the mean training loss (nats per unit) in the metrics' units, for the log."""
        return {}

    def baselines(self, split: str) -> dict[str, dict[str, float]]:
        """Return metrics of trivial baselines on a split, such as the majority class, by name."""
        return {}

    def anchors(self) -> dict[str, dict[str, float]]:
        """Return test metrics of outside models, such as naive Bayes, by name.

        A run that is worse than an anchor may still have learned.
        """
        return {}

    def counted(self, outputs: Sequence[str]) -> dict[str, Sequence[Sequence[float]]]:
        """Return the counts (E, columns) of E test examples by metric, given a run's test outputs.

        `records.by_example` computes metrics from these counts, to compare runs on the same test
        examples.
        """
        return {}
