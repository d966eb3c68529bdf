"""Classification of images and sentences: MNIST, CIFAR-10, RT, SST5 and the user's own."""

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adanorm.config.data_sections import TextConfig
from adanorm.config.experiment import Experiment
from adanorm.data.examples import with_label_noise
from adanorm.tasks import ClassTask, Evaluation, ExampleCounts, Scores

Array = np.typing.NDArray[Any]
SMOOTHING = (0.1, 0.3, 1.0, 3.0)  # of naive Bayes: added to the count of every word


class Classification(ClassTask):
    """One label per example; accuracy in percent, loss in nats per example.

    With `data.label_noise` some training labels are wrong. Of the examples that have them, the test
    reports the percentages `memorized` (the wrong label is predicted) and `recovered` (the true
    label is predicted).
    """

    def __init__(self, experiment: Experiment) -> None:
        data: Any = experiment.data
        self._data = data
        if isinstance(data, TextConfig):
            from adanorm.data.sentences import load_sentences

            splits = load_sentences(data)
        else:
            from adanorm.data.images import load_images

            splits = load_images(data)
        self._truth = splits["train"].targets
        if data.label_noise:
            splits = with_label_noise(splits, data.label_noise, experiment.seed)
        self._is_wrong = splits["train"].targets != self._truth
        self.splits, self.examples, self.inspection = splits, splits.examples, splits.inspection
        sizes = {"classes": len(splits.labels)}
        if splits.vocabulary:
            sizes["vocabulary"] = len(splits.vocabulary)
        super().__init__(
            experiment,
            splits.examples,
            splits.checksums,
            **sizes,
        )
        self.smoothing = experiment.training.label_smoothing or 0.0

    def evaluate(self, model: nn.Module, split: str) -> Evaluation:
        """Return accuracy (%), loss (nats per example), and the predicted label of each example."""
        targets = self.splits[split].targets
        predicted, total = self._predictions(model, split)
        metrics = {"accuracy": _percent(predicted == targets), "loss": total / len(targets)}
        if split == "test" and self._is_wrong.any():
            predicted_train, _ = self._predictions(
                model,
                "train",
                self._is_wrong,
            )
            predicted_train = predicted_train[self._is_wrong]
            wrong = self.splits["train"].targets[self._is_wrong]
            metrics["memorized"] = _percent(predicted_train == wrong)
            metrics["recovered"] = _percent(predicted_train == self._truth[self._is_wrong])
        return Evaluation(metrics, [self.splits.labels[label] for label in predicted.tolist()])

    def _predictions(
        self, model: nn.Module, split: str, mask: Tensor | None = None
    ) -> tuple[Tensor, float]:
        """Return a split's predicted labels (N,), undefined outside `mask` (N,), and their summed loss."""
        examples = self.splits[split]
        device = next(model.parameters()).device
        total = 0.0
        predicted = torch.empty(len(examples), dtype=torch.long)
        with torch.inference_mode():
            for indices in examples.order(None):
                if mask is not None:
                    indices = indices[mask[indices].numpy()]  # noqa: PLW2901
                batch = examples.batch(indices).to(device)
                logits = model(batch.inputs).float()
                total += F.cross_entropy(
                    logits,
                    batch.targets,
                    reduction="sum",
                ).item()
                predicted[torch.from_numpy(indices)] = logits.argmax(1).cpu()
        return predicted, total

    def baselines(self, split: str) -> Scores:
        """Return the accuracy (%) of always predicting the most frequent training label."""
        is_majority = self.splits[split].targets == self._truth.bincount().argmax()
        return {"majority class": {"accuracy": 100 * float(is_majority.float().mean())}}

    def anchors(self) -> Scores:
        """Return the test accuracy (%) of naive Bayes on sentences; nothing of images.

        It knows all words of training; its smoothing is the best of SMOOTHING by validation.
        """
        if not isinstance(self._data, TextConfig):
            return {}
        from adanorm.data.sentences import load_sentences

        splits = load_sentences(self._data.model_copy(update={"min_count": 1}))
        words = len(splits.vocabulary)
        train = _word_presence(splits["train"], words)
        accuracies = []
        for smoothing in SMOOTHING:
            by_split = []
            for split in ("valid", "test"):
                presence = _word_presence(splits[split], words)
                predicted = naive_bayes(
                    train,
                    self._truth.numpy(),
                    presence,
                    smoothing,
                )
                by_split.append(_percent(torch.from_numpy(predicted) == splits[split].targets))
            accuracies.append(by_split)
        return {"naive Bayes": {"accuracy": max(accuracies, key=itemgetter(0))[1]}}

    def counted(self, outputs: Sequence[str]) -> ExampleCounts:
        """Return 1 for each test example whose label is right, 0 for the rest."""
        targets = self.splits["test"].targets.tolist()
        rows = []
        for target, output in zip(
            targets,
            outputs,
            strict=True,
        ):
            rows.append([int(self.splits.labels[target] == output)])
        return {"accuracy": rows}


def _percent(is_true: Tensor) -> float:
    return 100 * int(is_true.sum()) / len(is_true)


def naive_bayes(train: Array, labels: Array, test: Array, smoothing: float = 1.0) -> Array:
    """Return the label of each row of `test` (N,) by multinomial naive Bayes, smoothed by a count.

    `train` (M, words) and `test` (N, words) say which words a sentence has; `labels` (M,).
    """
    scores = []
    for label in range(labels.max() + 1):
        rows = train[labels == label]
        counts = smoothing + rows.sum(axis=0)
        scores.append(test @ np.log(counts / counts.sum()) + np.log(max(len(rows), 1e-9)))
    return np.argmax(scores, axis=0)


def _word_presence(examples: Any, words: int) -> Array:
    """Return which known words each sentence has (sentences, words), as 0 and 1."""
    presence = np.zeros((len(examples), words), dtype=np.float32)
    for row, sentence in enumerate(examples.sentences):
        presence[row, sentence] = 1
    presence[:, :2] = 0  # padding, and words that training lacks
    return presence
