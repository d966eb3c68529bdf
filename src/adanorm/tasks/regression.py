"""Regression: the deep linear network's least squares."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from adanorm.config.data_sections import GaussianConfig
from adanorm.config.experiment import Experiment
from adanorm.data import synthetic
from adanorm.data.examples import ArrayExamples, Batch, Batches
from adanorm.tasks.base import Evaluation, Loss, TrainingTask


class Regression(TrainingTask):
    """A few numbers per example; loss and metric are the mean squared error per number."""

    def __init__(self, experiment: Experiment) -> None:
        assert isinstance(experiment.data, GaussianConfig), (
            "the configuration pairs models and readers"
        )
        data, outputs = experiment.data, experiment.data.outputs
        sizes = {"train": data.train_size, "valid": data.valid_size, "test": data.test_size}
        total = sum(sizes.values())
        arrays = synthetic.linear_map(total, inputs=data.inputs, outputs=outputs, noise=data.noise)
        inputs, targets = (
            torch.split(torch.from_numpy(values), [*sizes.values()]) for values in arrays
        )
        parts = zip(sizes, inputs, targets, strict=True)
        self.splits = {split: ArrayExamples(x, y, data.batch_size) for split, x, y in parts}
        self.examples = self.splits
        super().__init__(experiment, self.splits, {}, inputs=data.inputs, outputs=outputs)

    def loss(self, model: nn.Module, batch: Batch, carried: Sequence[Tensor] = ()) -> Loss:
        """Return the summed squared error over the batch's targets, and the number of targets."""
        errors = model(batch.inputs).float() - batch.targets
        return Loss(errors.square().sum(), batch.targets.numel())

    def evaluate(self, model: nn.Module, split: str) -> Evaluation:
        """Return the mean squared error, and the predictions, one line per example."""
        examples = self.splits[split]
        device = next(model.parameters()).device
        with torch.inference_mode():
            batches = Batches(examples.batch, examples.order(None))
            predictions = torch.cat(
                [model(batch.to(device).inputs).float().cpu() for batch in batches]
            )
        error = (predictions - examples.targets).double().square().mean().item()
        return Evaluation(
            {"loss": error}, [" ".join(map(repr, row)) for row in predictions.tolist()]
        )

    def baselines(self, split: str) -> dict[str, dict[str, float]]:
        """Return the mean squared error of always predicting the mean training target."""
        mean = self.splits["train"].targets.mean(0)
        return {
            "mean": {"loss": (self.splits[split].targets - mean).double().square().mean().item()}
        }

    def counted(self, outputs: Sequence[str]) -> dict[str, Sequence[Sequence[float]]]:
        """Return the mean squared error of each test example, given its predictions."""
        predictions = torch.tensor([[float(number) for number in line.split()] for line in outputs])
        errors = (predictions - self.splits["test"].targets).double().square().mean(1)
        return {"loss": [[error] for error in errors.tolist()]}
