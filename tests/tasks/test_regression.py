"""The deep linear network's least squares, against numpy's and torch's own."""

from functools import partial

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from adanorm.data.synthetic import linear_map
from adanorm.tasks.regression import Regression
from tests.networks import smoke_run

built = partial(smoke_run, Regression, "task=gaussian")


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_the_targets_are_a_linear_map_of_the_inputs_and_noise_of_the_set_size(noise: float) -> None:
    x, y = linear_map(
        4000,
        inputs=6,
        outputs=4,
        noise=noise,
    )
    residual = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
    assert residual.std() == pytest.approx(noise, rel=0.03, abs=1e-6)
    assert x.std() == pytest.approx(1, rel=0.03)
    assert y.var() == pytest.approx(1 + noise**2, rel=0.4)  # the map's own entries are random
    same = linear_map(
        4000,
        inputs=6,
        outputs=4,
        noise=noise,
    )
    assert np.array_equal(same[1], y)


def test_the_splits_share_one_map_and_no_example() -> None:
    task, _ = built("data.train_size=100", "data.valid_size=50", "data.test_size=30")
    assert task.sizes == {"train": 100, "valid": 50, "test": 30}
    train, test = task.examples["train"], task.examples["test"]
    solution = torch.linalg.lstsq(train.inputs, train.targets).solution
    torch.testing.assert_close(
        test.inputs @ solution,
        test.targets,
        atol=1e-4,
        rtol=1e-4,
    )
    rows = torch.cat([split.inputs for split in task.examples.values()])
    assert len({tuple(row) for row in rows.tolist()}) == 180


@pytest.mark.parametrize(("norm", "layers"), [("none", 5), ("layernorm", 4)])
def test_the_network_is_the_product_of_its_matrices_with_a_norm_after_all_but_the_last(
    norm: str, layers: int
) -> None:
    task, model = built(f"norm={norm}", f"model.layers={layers}")
    x = inputs = task.examples["test"].inputs
    *weights, last = [linear.get_parameter("weight").T for linear in model.linears]
    for weight in weights:
        x = F.layer_norm(x @ weight, (8,)) if norm == "layernorm" else x @ weight
    assert (len(weights), last.shape) == (layers - 1, (8, 3))
    torch.testing.assert_close(model(inputs), x @ last)


def test_the_loss_is_a_sum_of_squared_errors_and_the_metric_their_mean() -> None:
    task, model = built("norm=adanorm", "data.batch_size=24")
    test = task.examples["test"]
    expected = F.mse_loss(model(test.inputs), test.targets)
    batches = [test.batch(indices) for indices in test.order(None)]
    losses = [task.loss(model, batch) for batch in batches]
    assert [loss.units for loss in losses] == [72, 72, 48]
    torch.testing.assert_close(torch.stack([loss.total for loss in losses]).sum() / 192, expected)
    evaluation = task.evaluate(model, "test")
    assert evaluation.metrics == {"loss": pytest.approx(expected.item())}
    assert len(evaluation.outputs) == 64
    per_example = torch.tensor(task.counted(evaluation.outputs)["loss"])[:, 0]
    expected = (model(test.inputs) - test.targets).square().mean(1)
    torch.testing.assert_close(
        per_example,
        expected,
        atol=1e-6,
        rtol=1e-5,
    )
    assert per_example.mean().item() == pytest.approx(evaluation.metrics["loss"])


def test_the_initialization_keeps_the_variance_through_25_layers() -> None:
    """Torch's own initialization divides it by three per layer: the targets would be out of reach."""
    spreads = {}
    for init in ("xavier", "default"):
        sizes = "model.layers=25", "model.dim=256", "data.inputs=256"
        task, model = built("norm=none", *sizes, f"model.init={init}")
        spreads[init] = model(task.examples["test"].inputs).std().item()
    assert 0.1 < spreads["xavier"] < 10
    assert spreads["default"] < 1e-3
