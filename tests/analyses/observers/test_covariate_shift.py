"""Internal covariate shift against gradients of functional calls at the weights the definition names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from adanorm.analyses.observers.covariate_shift import calls, layers, observe
from adanorm.analyses.step import Step
from adanorm.training.loop import Trainer
from tests.analyses.conftest import Records, begin, grad


def started(record: Records, *overrides: str) -> tuple[Trainer, Step]:
    trainer, sites = begin(record("covariate-shift", *overrides).experiment)
    norms = {site: trainer.model.get_submodule(site) for site in sites}
    return trainer, Step(trainer, next(trainer.batches()), norms)


def flat(tensors: Mapping[str, Tensor], prefix: str) -> Tensor:
    return torch.cat([t.flatten() for name, t in tensors.items() if name.startswith(f"{prefix}.")])


CASES = [  # overrides, and the modules with parameters in the order of the forward pass
    (("task=gaussian", "norm=none"), ["linears.0", "linears.1", "linears.2", "linears.3"]),
    (("task=gaussian", "norm=layernorm", "model.layers=3"),
     ["linears.0", "norms.0", "linears.1", "norms.1", "linears.2"]),
    (("task=mnist", "norm=layernorm"), ["convs.0", "norms.0", "convs.1", "norms.1", "output"]),
    (("task=mnist", "norm=adanorm", "training.clip_norm=1e-3"), ["convs.0", "convs.1", "output"]),
    (("task=mnist", "norm=batchnorm"), ["convs.0", "norms.0", "convs.1", "norms.1", "output"]),
    (("task=cifar10", "norm=layernorm"), ["convs.0", "norms.0", "convs.1", "norms.1", "output"]),
]  # fmt: skip


@pytest.mark.parametrize(("overrides", "order"), CASES)
def test_it_is_the_definition_written_out(
    overrides: tuple[str, ...], order: list[str], record: Records
) -> None:
    trainer, step = started(record, *overrides)
    (batch,) = step.micro_batches
    model = trainer.model

    def loss(weights: dict[str, Tensor]) -> Tensor:
        outputs = functional_call(model, weights, (batch.inputs,))  # type: ignore[attr-defined]
        targets = batch.targets  # type: ignore[attr-defined]
        if targets.dtype == torch.long:
            return nn.functional.cross_entropy(outputs, targets)
        return nn.functional.mse_loss(outputs, targets)

    old = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    found = observe(step)
    new = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    assert any(not torch.equal(old[name], new[name]) for name in old)
    measured = [layer for layer in order[1:] if not layer.startswith("norms")]
    assert list(found) == measured
    for layer in measured:
        earlier = tuple(f"{name}." for name in order[: order.index(layer)])
        mixed = {name: (new if name.startswith(earlier) else old)[name] for name in old}
        G, then = flat(grad(loss)(old), layer), flat(grad(loss)(mixed), layer)
        assert found[layer]["shift"] == pytest.approx((G - then).norm().item(), rel=1e-3)
        assert found[layer]["relative"] == pytest.approx(((G - then).norm() / G.norm()).item(), rel=1e-3)
        assert found[layer]["cosine"] == pytest.approx(
            torch.cosine_similarity(G.double(), then.double(), dim=0).item(), abs=1e-6
        )
        assert found[layer]["shift"] > 1e-5


def test_two_linear_layers_by_hand(record: Records) -> None:
    """l = |X A B - Y|^2 / n: the gradient of B is 2 (X A)' (X A B - Y) / n, and A moves first."""
    trainer, step = started(record, "task=gaussian", "norm=none", "model.layers=2")
    (batch,) = step.micro_batches
    X, Y = batch.inputs.double(), batch.targets.double()  # type: ignore[attr-defined]

    def weight(index: int) -> Tensor:
        return trainer.model.get_parameter(f"linears.{index}.weight").detach().double().T.clone()

    def gradient(A: Tensor) -> Tensor:
        found: Tensor = 2 * (X @ A).T @ (X @ A @ B - Y) / Y.numel()
        return found

    A, B = weight(0), weight(1)
    found = observe(step)
    assert list(found) == ["linears.1"]
    expected = (gradient(A) - gradient(weight(0))).norm().item()
    assert found["linears.1"]["shift"] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("task", ["rt", "enwik8", "de-en", "ptb"])
def test_without_a_step_nothing_shifts(task: str, record: Records) -> None:
    """Dropout and memory are the same in every pass; weights so little moved give the same gradient."""
    dropout = {"de-en": ["model.dropout=0.3"], "rt": ["model.dropout=0.3"]}.get(task, [])
    _, step = started(record, f"task={task}", "norm=layernorm", "training.lr=1e-12", *dropout)
    found = observe(step)
    assert len(found) >= 1
    assert all(values["relative"] < 1e-3 for values in found.values()), found
    assert all(values["cosine"] > 0.99999 for values in found.values())


def test_a_layer_costs_a_pass_and_only_the_backward_part_behind_it(record: Records) -> None:
    trainer, step = started(record, "task=gaussian", "norm=layernorm")
    linears = [module for module in trainer.model.modules() if isinstance(module, nn.Linear)]
    forward, backward = [0] * 4, [0] * 4

    def count(counts: list[int], index: int) -> Any:
        def hook(*_: Any) -> None:
            counts[index] += 1

        return hook

    for index, linear in enumerate(linears):
        linear.register_forward_hook(count(forward, index))
        linear.get_parameter("weight").register_hook(count(backward, index))  # type: ignore[no-untyped-call]
    observe(step)
    assert forward == [4] * 4  # the update, and a pass for each layer after the first
    assert backward == [1, 2, 2, 2]  # the update, and a layer's own


class Backwards(nn.Module):
    """Modules defined in the reverse of the order they are called in, one in another, one not called."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(4, 1)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.first = nn.Linear(2, 4)
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x) * self.scale
        result: Tensor = self.last(self.attention(x, x, x)[0])
        return result


def test_layers_come_in_the_order_of_their_calls() -> None:
    model = Backwards()
    with calls(model) as called:
        model(torch.randn(3, 5, 2))
    found = layers(model, called)
    assert list(found) == ["", "first", "attention", "last"]
    assert found[""] == ["scale"]
    assert "attention.out_proj.weight" in found["attention"]  # whose module is never called itself
    assert sorted(name for names in found.values() for name in names) == sorted(
        name for name, _ in model.named_parameters()
    )
