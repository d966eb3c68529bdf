"""What tests of analyses share: tiny runs of scale smoke, observed or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor

from adanorm.analyses.spec import AnalysisRecord, load_analysis
from adanorm.config.compose import compose_experiment
from adanorm.config.experiment import Experiment
from adanorm.runs.setup import prepare, start_trainer
from adanorm.training.loop import Trainer

Records = Callable[..., AnalysisRecord]
Weights = dict[str, Tensor]


def grad(loss: Callable[[Weights], Tensor]) -> Callable[[Weights], Weights]:
    """Return the gradient of a function of weights; torch.func.grad has none where statistics are kept."""

    def gradient(weights: Weights) -> Weights:
        leaves = {name: weight.detach().clone().requires_grad_() for name, weight in weights.items()}
        return dict(zip(leaves, torch.autograd.grad(loss(leaves), list(leaves.values())), strict=True))

    return gradient


def begin(experiment: Experiment) -> tuple[Trainer, list[str]]:
    """Return the trainer of a run at its very start, and the sites of its norm."""
    prepared = prepare(experiment)
    return start_trainer(experiment, prepared), prepared.sites.swapped


@pytest.fixture
def record(tmp_path: Path) -> Records:
    """Makes the record of an analysis of a smoke run, in a temporary folder."""

    def make(
        name: str, *overrides: str, given: Mapping[str, str] | None = None, runs: Path = tmp_path
    ) -> AnalysisRecord:
        settings = {"steps": "6", "every": "2", "scale": "smoke", **(given or {})}
        return AnalysisRecord(
            load_analysis(name, settings), compose_experiment(["scale=smoke", f"runs={runs}", *overrides])
        )

    return make
