"""The loss along its gradient: on a quadratic, where the Hessian gives every number, and by torch.func."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from adanorm.analyses.observers.landscape import observe
from adanorm.analyses.step import Step
from adanorm.runs.execute import prepare, start_trainer
from tests.analyses.conftest import Records, count_passes, first_step, flat, functional_loss, grad

FEW = {"probes": "2"}  # at most as many as a tiny run has steps
PROBES: Any = {"probes": 3, "smallest": 20.0, "largest": 100.0}


def quadratic(record: Records) -> tuple[Step, Tensor, Tensor]:
    """Least squares under one matrix of eight inputs and three targets: a quadratic loss."""
    run = record(
        "landscape",
        "task=gaussian",
        "norm=none",
        settings=FEW,
    ).experiment
    trainer = start_trainer(run, prepare(run)._replace(model=nn.Linear(8, 3, bias=False)))
    step = Step(trainer, next(trainer.batches()), {})
    (batch,) = step.micro_batches
    return step, batch.inputs, batch.targets  # type: ignore[attr-defined]


def test_on_a_quadratic_every_number_follows_from_the_hessian(record: Records) -> None:
    step, *data = quadratic(record)
    X, Y = (tensor.double() for tensor in data)
    W = step.model.get_parameter("weight").detach().double().clone()
    # For each row of W; the loss is the mean over all B x 3 squared errors.
    H = 2 * X.T @ X / Y.numel()
    g = 2 * (X @ W.T - Y).T @ X / Y.numel()
    statistics = observe(step, **PROBES)[""]
    etas = [0.001 * multiple for multiple in (20.0, 60.0, 100.0)]
    start = (X @ W.T - Y).square().mean()
    curvature, bend = (g @ H * g).sum(), (g @ H).norm()
    losses = [(start - eta * g.square().sum() + eta**2 / 2 * curvature).item() for eta in etas]
    low, high = (etas[0] * bend).item(), (etas[-1] * bend).item()
    expected = {
        "loss_low": min(losses),
        "loss_high": max(losses),
        "loss": max(losses) - min(losses),
        "gradient_low": low,
        "gradient_high": high,
        "gradient": high - low,
        "smoothness": (bend / g.norm()).item(),
        "magnitude": g.norm().item(),
    }
    assert statistics == pytest.approx(expected, rel=1e-3)
    eigenvalues = torch.linalg.eigvalsh(H)
    assert eigenvalues[0] < statistics["smoothness"] < eigenvalues[-1]


@pytest.mark.parametrize("clip", ["null", "1.0e-3"])
@pytest.mark.parametrize("norm", ["none", "batchnorm", "layernorm", "adanorm"])
def test_the_landscape_agrees_with_functional_gradients(
    norm: str, clip: str, record: Records
) -> None:
    """The observed gradient is that of the loss, even where training clips it."""
    entry = record(
        "landscape", "task=mnist", f"norm={norm}", f"training.clip_norm={clip}", settings=FEW
    )
    step = first_step(entry)
    loss = functional_loss(step)
    x = {name: parameter.detach().clone() for name, parameter in step.model.named_parameters()}
    g = grad(loss)(x)
    losses, changes, slopes = [], [], []
    for eta in (0.02, 0.06, 0.1):
        there = {name: x[name] - eta * g[name] for name in x}
        losses.append(loss(there).item())
        changes.append((flat(grad(loss)(there)) - flat(g)).norm().item())
        slopes.append(changes[-1] / (eta * flat(g).norm().item()))
    expected = {
        "loss": max(losses) - min(losses),
        "loss_low": min(losses),
        "loss_high": max(losses),
        "gradient": max(changes) - min(changes),
        "gradient_low": min(changes),
        "gradient_high": max(changes),
        "smoothness": max(slopes),
        "magnitude": flat(g).norm().item(),
    }
    assert observe(step, **PROBES)[""] == pytest.approx(expected, rel=2e-3)


def test_a_probe_costs_one_forward_and_one_backward_pass(record: Records) -> None:
    step = first_step(
        record(
            "landscape",
            "task=gaussian",
            "norm=layernorm",
            settings=FEW,
        )
    )
    passes = count_passes(step.model)
    observe(step, **PROBES)
    assert passes == {"forward": [4] * 4, "backward": [4] * 4}  # three probes and the update itself


def test_smoothness_is_nan_where_the_gradient_vanishes(record: Records) -> None:
    step, X, _ = quadratic(record)
    X.zero_()
    statistics = observe(step, **PROBES)[""]
    assert statistics["gradient_high"] == 0
    assert statistics["smoothness"] != statistics["smoothness"]
