"""The loss along its gradient: on a quadratic, whose Hessian says everything, and by other means."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from adanorm.analyses.observers.landscape import observe
from adanorm.analyses.step import Step
from adanorm.tasks.regression import Regression
from adanorm.training.loop import Trainer
from tests.analyses.conftest import Records, begin, grad
from tests.conftest import Command

FEW = {"probes": "2"}  # no more than a tiny run has steps


def quadratic(record: Records) -> tuple[Trainer, Step]:
    """Least squares under one matrix of eight inputs and three targets: a quadratic loss."""
    run = record("landscape", "task=gaussian", "norm=none", given=FEW).experiment
    made, _ = begin(run)
    torch.manual_seed(0)
    model = nn.Linear(8, 3, bias=False)
    trainer = Trainer(made.task, model, made.selection, run.training, made.context)
    return trainer, Step(trainer, next(trainer.batches()), {})


def test_on_a_quadratic_every_number_is_that_of_its_hessian(record: Records) -> None:
    trainer, step = quadratic(record)
    (batch,) = step.micro_batches
    X, Y = batch.inputs.double(), batch.targets.double()  # type: ignore[attr-defined]
    W = trainer.model.get_parameter("weight").detach().double().clone()
    # Of each row of W, for the mean over all B x 3 squared errors.
    H = 2 * X.T @ X / Y.numel()
    g = 2 * (X @ W.T - Y).T @ X / Y.numel()
    found = observe(step, probes=3, smallest=20.0, largest=100.0)[""]
    etas = [0.001 * multiple for multiple in (20.0, 60.0, 100.0)]
    start = (X @ W.T - Y).square().mean()
    curvature, bend = (g @ H * g).sum(), (g @ H).norm()
    losses = [(start - eta * g.square().sum() + eta**2 / 2 * curvature).item() for eta in etas]
    assert found["loss_low"] == pytest.approx(min(losses), rel=1e-5)
    assert found["loss_high"] == pytest.approx(max(losses), rel=1e-5)
    assert found["loss"] == pytest.approx(max(losses) - min(losses), rel=1e-3)
    assert found["gradient_low"] == pytest.approx((etas[0] * bend).item(), rel=1e-4)
    assert found["gradient_high"] == pytest.approx((etas[-1] * bend).item(), rel=1e-4)
    assert found["gradient"] == pytest.approx(found["gradient_high"] - found["gradient_low"])
    assert found["smoothness"] == pytest.approx((bend / g.norm()).item(), rel=1e-4)
    assert found["magnitude"] == pytest.approx(g.norm().item(), rel=1e-5)
    eigenvalues = torch.linalg.eigvalsh(H)
    assert eigenvalues[0] < found["smoothness"] < eigenvalues[-1]


def test_along_an_eigenvector_the_smoothness_is_its_eigenvalue(record: Records) -> None:
    trainer, step = quadratic(record)
    (batch,) = step.micro_batches
    X, Y = batch.inputs, batch.targets  # type: ignore[attr-defined]
    eigenvalues, vectors = torch.linalg.eigh(2 * X.T @ X / Y.numel())
    for index in (0, 4, 7):
        with torch.no_grad():  # the gradient at solution + v is H v
            solution = torch.linalg.lstsq(X, Y).solution.T
            trainer.model.get_parameter("weight").copy_(solution + vectors[:, index])
        fresh = Step(trainer, step.micro_batches, {})
        assert observe(fresh, probes=3, smallest=20.0, largest=100.0)[""]["smoothness"] == pytest.approx(
            eigenvalues[index].item(), rel=1e-3
        )


@pytest.mark.parametrize("clip", ["null", "1.0e-3"])
@pytest.mark.parametrize("norm", ["none", "batchnorm", "layernorm", "adanorm"])
def test_it_is_what_functional_gradients_say(norm: str, clip: str, record: Records) -> None:
    """The gradient is the loss's own, clipped or not."""
    one = record("landscape", "task=mnist", f"norm={norm}", f"training.clip_norm={clip}", given=FEW)
    trainer, _ = begin(one.experiment)
    step = Step(trainer, next(trainer.batches()), {})
    (batch,) = step.micro_batches
    model = trainer.model

    def loss(weights: dict[str, Tensor]) -> Tensor:
        logits = functional_call(model, weights, (batch.inputs,))  # type: ignore[attr-defined]
        return nn.functional.cross_entropy(logits, batch.targets)  # type: ignore[attr-defined]

    x = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    g = grad(loss)(x)

    def flat(tensors: dict[str, Tensor]) -> Tensor:
        return torch.cat([tensors[name].flatten() for name in x])

    losses, changes, slopes = [], [], []
    for eta in (0.02, 0.06, 0.1):
        there = {name: x[name] - eta * g[name] for name in x}
        losses.append(loss(there).item())
        changes.append((flat(grad(loss)(there)) - flat(g)).norm().item())
        slopes.append(changes[-1] / (eta * flat(g).norm().item()))
    found = observe(step, probes=3, smallest=20.0, largest=100.0)[""]
    expected = {
        "loss": max(losses) - min(losses), "loss_low": min(losses), "loss_high": max(losses),
        "gradient": max(changes) - min(changes), "gradient_low": min(changes), "gradient_high": max(changes),
        "smoothness": max(slopes), "magnitude": flat(g).norm().item(),
    }  # fmt: skip
    assert found == pytest.approx(expected, rel=2e-3)


def test_a_probe_costs_one_forward_and_one_backward_pass(record: Records) -> None:
    trainer, _ = begin(record("landscape", "task=gaussian", "norm=layernorm", given=FEW).experiment)
    assert isinstance(trainer.task, Regression)
    passes = {"forward": 0, "backward": 0}
    first, last = (trainer.model.get_submodule(f"linears.{index}") for index in (0, 3))

    def count(kind: str) -> Any:
        return lambda *_: passes.update({kind: passes[kind] + 1})

    first.register_forward_hook(count("forward"))
    last.get_parameter("weight").register_hook(count("backward"))  # type: ignore[no-untyped-call]
    observe(Step(trainer, next(trainer.batches()), {}), probes=3, smallest=20.0, largest=100.0)
    assert passes == {"forward": 4, "backward": 4}  # three probes and the update itself


def test_where_the_gradient_vanishes_no_smoothness_is_made_up(record: Records) -> None:
    _, step = quadratic(record)
    (batch,) = step.micro_batches
    batch.inputs.zero_()  # type: ignore[attr-defined]
    found = observe(step, probes=3, smallest=20.0, largest=100.0)[""]
    assert found["gradient_high"] == 0
    assert found["smoothness"] != found["smoothness"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["probes=300"], "probes=300: more than steps=200"),
        (["probes=1"], "probes=1: a range needs two"),
        (["smallest=9", "largest=4"], "smallest=9: must be below largest=4"),
        (["smallest=-1"], "smallest=-1: must be above 0"),
        (["probes=2.5"], "probes=2.5: must be a whole number"),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], complaint: str, tmp_path: Any, command: Command) -> None:
    done = command("analyze", "landscape", *arguments, "scale=smoke", f"runs={tmp_path}")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert complaint in done.stderr
    assert list(tmp_path.iterdir()) == []
