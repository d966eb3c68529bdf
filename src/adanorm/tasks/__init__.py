"""What the training loop needs from a task: a model, batches, their loss and a score.

There is one class for each kind of task, imported when a run of its kind is built.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence, Sized
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from torch import Tensor, nn
from torch.nn import functional as F

from adanorm.config.experiment import Experiment
from adanorm.data.examples import Batch, Batches, LabelledExamples, Movable
from adanorm.data.inspection import Inspection
from adanorm.models.norm_sites import PlacedNorms, build_model

if TYPE_CHECKING:  # a run loads no kind of task but its own
    from adanorm.data.byte_streams import Segments

KINDS = {
    "classification": "adanorm.tasks.classification:Classification",
    "translation": "adanorm.tasks.translation:Translation",
    "char_lm": "adanorm.tasks.char_lm:CharLm",
    "parsing": "adanorm.tasks.parsing:Parsing",
    "regression": "adanorm.tasks.regression:Regression",
}
AnyBatch = Movable  # a batch of any task, whose tensors move to a device together
EpochBatches: TypeAlias = "Batches | Segments"  # their number is known before they are made
Scores = dict[str, dict[str, float]]  # metrics by name, by what has these scores
ExampleCounts = dict[str, Sequence[Sequence[float]]]  # (E, columns) of E test examples, by metric


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
    def examples(self) -> Mapping[str, LabelledExamples]:
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

    def baselines(self, split: str) -> Scores:
        """Return metrics of trivial baselines on a split, such as the majority class, by name."""
        return {}

    def anchors(self) -> Scores:
        """Return test metrics of outside models, such as naive Bayes, by name.

        A run that is worse than an anchor may still have learned.
        """
        return {}

    def counted(self, outputs: Sequence[str]) -> ExampleCounts:
        """Return the counts (E, columns) of E test examples by metric, given a run's test outputs.

        `records.by_example` computes metrics from these counts, to compare runs on the same test
        examples.
        """
        return {}


class ClassTask(TrainingTask):
    """A task that predicts one class per example: a label, or a parser's next transition."""

    smoothing: float = 0.0  # of the labels, in training

    def loss(self, model: nn.Module, batch: Batch, carried: Sequence[Tensor] = ()) -> Loss:
        """Return the summed label-smoothed loss in nats (Szegedy et al. 2016), and the batch size."""
        logits = model(batch.inputs).float()
        targets = batch.targets.long()
        total = F.cross_entropy(
            logits,
            targets,
            reduction="sum",
            label_smoothing=self.smoothing,
        )
        return Loss(total, len(targets))


def build(experiment: Experiment) -> TrainingTask:
    """Return the task of an experiment with its data loaded.

    Raises ValueError where data cannot be fetched or read, and where a file changed after its
    content had identified the experiment.
    """
    module, _, name = KINDS[experiment.task.kind].partition(":")
    task: TrainingTask = getattr(import_module(module), name)(experiment)
    identified = experiment.identity["data"].get("files", {})
    missing = Counter(identified.values()) - Counter(task.checksums.values())
    for role, checksum in identified.items():
        if checksum in missing:
            raise ValueError(
                f"data: the file for {role} was changed after the run was named by its content;"
                " start again"
            )
    return task
