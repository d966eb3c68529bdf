"""Shared by the tests of analyses: tiny runs at scale smoke, observed or not."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from adanorm.analyses.along_training import updates
from adanorm.analyses.spec import AnalysisRecord, load_analysis
from adanorm.analyses.step import Observe, Step
from adanorm.config.compose import compose_experiment
from adanorm.runs.execute import prepare, start_trainer
from adanorm.training.loop import Trainer

Records = Callable[..., AnalysisRecord]
Weights = dict[str, Tensor]


def grad(loss: Callable[[Weights], Tensor]) -> Callable[[Weights], Weights]:
    """Return the gradient of a function of weights; torch.func.grad fails where norms update statistics."""

    def gradient(weights: Weights) -> Weights:
        leaves = {
            name: weight.detach().clone().requires_grad_() for name, weight in weights.items()
        }
        return dict(
            zip(leaves, torch.autograd.grad(loss(leaves), list(leaves.values())), strict=True)
        )

    return gradient


def functional_loss(step: Step) -> Callable[[Weights], Tensor]:
    """Return the loss on a step's only micro-batch as a function of the weights."""
    (batch,) = step.micro_batches
    inputs, targets = batch.inputs, batch.targets  # type: ignore[attr-defined]
    loss = nn.functional.cross_entropy if targets.dtype == torch.long else nn.functional.mse_loss
    return lambda weights: loss(functional_call(step.model, weights, (inputs,)), targets)


def flat(tensors: Mapping[str, Tensor], prefix: str = "") -> Tensor:
    """Return the numbers of all tensors whose names start with a prefix as one vector."""
    return torch.cat(
        [tensor.flatten() for name, tensor in tensors.items() if name.startswith(prefix)]
    )


def begin(entry: AnalysisRecord) -> tuple[Trainer, list[str]]:
    """Return the trainer of a record's run at its very start, and the sites of its norm."""
    prepared = prepare(entry.experiment)
    return start_trainer(entry.experiment, prepared), prepared.sites.swapped


def first_step(entry: AnalysisRecord) -> Step:
    """Return the first update of a record's run before it is made."""
    trainer, sites = begin(entry)
    return Step(
        trainer,
        next(trainer.batches()),
        {site: trainer.model.get_submodule(site) for site in sites},
    )


def observed(entry: AnalysisRecord, observe: Observe) -> list[dict[str, Any]]:
    """Return the rows that are observed along a record's run."""
    return [row for row in updates(entry.analysis, *begin(entry), observe) if row is not None]


def count_passes(model: nn.Module) -> dict[str, list[int]]:
    """Count the forward and backward passes of each linear layer of a model from now on."""
    linears = [module for module in model.modules() if isinstance(module, nn.Linear)]
    passes = {"forward": [0] * len(linears), "backward": [0] * len(linears)}

    def count(kind: str, index: int) -> Callable[..., None]:
        return lambda *_: passes[kind].__setitem__(index, passes[kind][index] + 1)

    for index, linear in enumerate(linears):
        linear.register_forward_hook(count("forward", index))
        linear.get_parameter("weight").register_hook(count("backward", index))  # type: ignore[no-untyped-call]
    return passes


@pytest.fixture
def record(tmp_path: Path) -> Records:
    """Makes the record of an analysis of a smoke run, in a temporary folder."""

    def make(
        name: str, *overrides: str, settings: Mapping[str, str] | None = None, runs: Path = tmp_path
    ) -> AnalysisRecord:
        all_settings = {"steps": "6", "every": "2", "scale": "smoke", **(settings or {})}
        return AnalysisRecord(
            load_analysis(name, all_settings),
            compose_experiment(["scale=smoke", f"runs={runs}", *overrides]),
        )

    return make
