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
    """One label per example; accuracy in percent, loss in nats per example.

    With `data.label_noise` some training labels are wrong. Of the examples that have them, the test
    reports the percentages `memorized` (the wrong label is predicted) and `recovered` (the true
    label is predicted).
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
        """Return the summed label-smoothed loss in nats (Szegedy et al. 2016), and the batch size."""
        logits = model(batch.inputs).float()
        total = F.cross_entropy(
            logits, batch.targets, reduction="sum", label_smoothing=self._smoothing
        )
        return Loss(total, len(batch.targets))

    def evaluate(self, model: nn.Module, split: str) -> Evaluation:
        """Return accuracy (%), loss (nats per example), and the predicted label of each example."""
        examples = self.splits[split]
        predicted, total = self._predictions(model, split)
        metrics = {
            "accuracy": _percent(predicted == examples.targets),
            "loss": total / len(examples),
        }
        if split == "test" and self._is_wrong.any():
            predicted_train, _ = self._predictions(model, "train", self._is_wrong)
            for name, labels in {
                "memorized": self.splits["train"].targets,
                "recovered": self._truth,
            }.items():
                metrics[name] = _percent((predicted_train == labels)[self._is_wrong])
        return Evaluation(metrics, [self.splits.labels[label] for label in predicted.tolist()])

    def _predictions(
        self, model: nn.Module, split: str, mask: Tensor | None = None
    ) -> tuple[Tensor, float]:
        """Return predicted labels (N,) of a split, undefined outside `mask` (N,), and their summed loss."""
        examples, device = self.splits[split], next(model.parameters()).device
        total, predicted = 0.0, torch.empty(len(examples), dtype=torch.long)
        with torch.inference_mode():
            for in_batch in examples.order(None):
                indices = in_batch if mask is None else in_batch[mask[in_batch].numpy()]
                batch = examples.batch(indices).to(device)
                logits = model(batch.inputs).float()
                total += F.cross_entropy(logits, batch.targets, reduction="sum").item()
                predicted[torch.from_numpy(indices)] = logits.argmax(1).cpu()
        return predicted, total

    def baselines(self, split: str) -> dict[str, dict[str, float]]:
        """Return the accuracy (%) of always predicting the most frequent training label."""
        is_majority = self.splits[split].targets == self._truth.bincount().argmax()
        return {"majority class": {"accuracy": 100 * float(is_majority.float().mean())}}

    def counted(self, outputs: Sequence[str]) -> dict[str, Sequence[Sequence[float]]]:
        """Return 1 for each test example whose label is right, 0 for the others."""
        labels, targets = self.splits.labels, self.splits["test"].targets.tolist()
        right = [
            [int(labels[target] == output)] for target, output in zip(targets, outputs, strict=True)
        ]
        return {"accuracy": right}


def _percent(is_true: Tensor) -> float:
    return 100 * int(is_true.sum()) / len(is_true)
