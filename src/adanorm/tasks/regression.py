"""Regression: the deep linear network's least squares."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from adanorm.config.data_sections import GaussianConfig
from adanorm.config.experiment import Experiment
from adanorm.data import synthetic
from adanorm.data.examples import ArrayExamples, Batch, Batches
from adanorm.tasks import Evaluation, ExampleCounts, Loss, Scores, TrainingTask


class Regression(TrainingTask):
    """A few numbers per example; loss and metric are the mean squared error per number."""

    def __init__(self, experiment: Experiment) -> None:
        data = experiment.data
        assert isinstance(data, GaussianConfig), "the configuration pairs models and readers"
        sizes = {"train": data.train_size, "valid": data.valid_size, "test": data.test_size}
        inputs, targets = synthetic.linear_map(
            sum(sizes.values()),
            inputs=data.inputs,
            outputs=data.outputs,
            noise=data.noise,
        )
        self.examples: dict[str, ArrayExamples] = {}
        start = 0
        for split, size in sizes.items():
            rows = slice(start, start + size)
            x, y = torch.from_numpy(inputs[rows]), torch.from_numpy(targets[rows])
            self.examples[split] = ArrayExamples(
                x,
                y,
                data.batch_size,
            )
            start += size
        super().__init__(
            experiment,
            self.examples,
            {},
            inputs=data.inputs,
            outputs=data.outputs,
        )

    def loss(self, model: nn.Module, batch: Batch, carried: Sequence[Tensor] = ()) -> Loss:
        """Return the summed squared error over the batch's targets, and the number of targets."""
        errors = model(batch.inputs).float() - batch.targets
        return Loss(errors.square().sum(), batch.targets.numel())

    def evaluate(self, model: nn.Module, split: str) -> Evaluation:
        """Return the mean squared error, and the predictions, one line per example."""
        examples = self.examples[split]
        device = next(model.parameters()).device
        parts = []
        with torch.inference_mode():
            for batch in Batches(examples.batch, examples.order(None)):
                parts.append(model(batch.to(device).inputs).float().cpu())
        predictions = torch.cat(parts)
        error = (predictions - examples.targets).double().square().mean().item()
        outputs = [" ".join(map(repr, row)) for row in predictions.tolist()]
        return Evaluation({"loss": error}, outputs)

    def baselines(self, split: str) -> Scores:
        """Return the mean squared error of always predicting the mean training target."""
        mean = self.examples["train"].targets.mean(0)
        errors = (self.examples[split].targets - mean).double()
        return {"mean": {"loss": errors.square().mean().item()}}

    def counted(self, outputs: Sequence[str]) -> ExampleCounts:
        """Return the mean squared error of each test example, given its predictions."""
        rows = []
        for line, target in zip(
            outputs,
            self.examples["test"].targets,
            strict=True,
        ):
            predictions = torch.tensor(list(map(float, line.split())))
            rows.append([(predictions - target).double().square().mean().item()])
        return {"loss": rows}
