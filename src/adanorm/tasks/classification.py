"""Classification of images and sentences: MNIST, CIFAR-10, RT, SST5 and the user's own."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adanorm.config.data_sections import TextConfig
from adanorm.config.experiment import Experiment
from adanorm.data.examples import Batch, with_label_noise
from adanorm.data.images import load_images
from adanorm.data.sentences import load_sentences
from adanorm.tasks.base import Evaluation, Loss, TrainingTask


class Classification(TrainingTask):
    """One label an example; accuracy in percent, loss in nats an example.

    With `data.label_noise` some labels of training are wrong. Of these a test tells in percent how many are
    `memorized`, predicted as they are given, and how many `recovered`, predicted as the truth.
    """

    def __init__(self, experiment: Experiment) -> None:
        data: Any = experiment.data
        self.splits = load_sentences(data) if isinstance(data, TextConfig) else load_images(data)
        self._truth = self.splits["train"].targets
        if data.label_noise:
            self.splits = with_label_noise(self.splits, data.label_noise, experiment.seed)
        self._is_wrong = self.splits["train"].targets != self._truth
        self.examples, self.inspection = self.splits.examples, self.splits.inspection
        sizes = {"vocabulary": words} if (words := len(self.splits.vocabulary)) else {}
        sizes["classes"] = len(self.splits.labels)
        super().__init__(experiment, self.examples, self.splits.checksums, **sizes)
        self._smoothing = experiment.training.label_smoothing or 0.0

    def loss(self, model: nn.Module, batch: Batch, carried: Sequence[Tensor] = ()) -> Loss:
        """Return the cross-entropy in nats, labels smoothed (Szegedy et al. 2016), and the batch's size."""
        logits = model(batch.inputs).float()
        total = F.cross_entropy(logits, batch.targets, reduction="sum", label_smoothing=self._smoothing)
        return Loss(total, len(batch.targets))

    def evaluate(self, model: nn.Module, split: str) -> Evaluation:
        """Return accuracy (%) and loss (nats an example), and the predicted label of each example."""
        examples = self.splits[split]
        predicted, total = self._predictions(model, split)
        metrics = {"accuracy": _percent(predicted == examples.targets), "loss": total / len(examples)}
        if split == "test" and self._is_wrong.any():
            of_train, _ = self._predictions(model, "train", self._is_wrong)
            for name, labels in {"memorized": self.splits["train"].targets, "recovered": self._truth}.items():
                metrics[name] = _percent((of_train == labels)[self._is_wrong])
        return Evaluation(metrics, [self.splits.labels[label] for label in predicted.tolist()])

    def _predictions(self, model: nn.Module, split: str, of: Tensor | None = None) -> tuple[Tensor, float]:
        """Return the predicted labels (N,) of a split, true where `of` is, and their summed loss."""
        examples, device = self.splits[split], next(model.parameters()).device
        total, predicted = 0.0, torch.empty(len(examples), dtype=torch.long)
        with torch.inference_mode():
            for in_order in examples.order(None):
                indices = in_order if of is None else in_order[of[in_order].numpy()]
                batch = examples.batch(indices).to(device)
                logits = model(batch.inputs).float()
                total += F.cross_entropy(logits, batch.targets, reduction="sum").item()
                predicted[torch.from_numpy(indices)] = logits.argmax(1).cpu()
        return predicted, total

    def baselines(self, split: str) -> dict[str, dict[str, float]]:
        """Return the accuracy (%) of the label that is most frequent in training."""
        is_most = self.splits[split].targets == self._truth.bincount().argmax()
        return {"majority class": {"accuracy": 100 * float(is_most.float().mean())}}

    def counted(self, outputs: Sequence[str]) -> dict[str, Sequence[Sequence[float]]]:
        """Return whether the label of each test example is right."""
        labels, targets = self.splits.labels, self.splits["test"].targets.tolist()
        right = [[int(labels[target] == output)] for target, output in zip(targets, outputs, strict=True)]
        return {"accuracy": right}


def _percent(is_so: Tensor) -> float:
    return 100 * int(is_so.sum()) / len(is_so)
