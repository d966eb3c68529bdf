"""Which weights an average is over, and what the optimizer is given."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from adanorm.config.compose import compose_experiment
from adanorm.config.sections import AverageConfig
from adanorm.training.averaging import keep_weights, mean_weights
from adanorm.training.optimizer import make_optimizer
from adanorm.training.state import SelectionMetric

SCORES = (3.0, 9.0, 1.0, 5.0)


@pytest.mark.parametrize(
    ("of", "higher_is_better", "kept"),
    [("last", True, {2, 3}), ("last", False, {2, 3}), ("best", True, {1, 3}), ("best", False, {0, 2})],
)
def test_an_average_is_over_the_last_weights_or_the_best(
    tmp_path: Path, of: str, higher_is_better: bool, kept: set[int]
) -> None:
    model, held = nn.Linear(1, 1), list[tuple[float, int]]()
    average = AverageConfig.model_validate({"of": of, "count": 2})
    selection = SelectionMetric("accuracy", higher_is_better)
    for update, score in enumerate(SCORES):
        nn.init.constant_(model.weight, update)
        held.append((score, update))
        keep_weights(model, held, average, selection, tmp_path, write=True)
    assert {update for _, update in held} == kept
    mean = mean_weights(held, tmp_path, torch.device("cpu"))
    assert mean["weight"].item() == sum(kept) / 2


def test_the_optimizer_has_the_settings_of_training_weight_decay_among_them() -> None:
    settings = compose_experiment(
        ["task=rt", "training.weight_decay=0.25", "training.betas=[0.8, 0.95]", "training.eps=1e-3"]
    ).training
    model = nn.Linear(2, 2)
    before = model.weight.detach().clone()
    optimizer = make_optimizer(model, settings)
    (group,) = optimizer.param_groups
    assert (group["lr"], group["betas"], group["eps"]) == (settings.lr, (0.8, 0.95), 1e-3)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    assert torch.allclose(model.weight, before * (1 - 0.25 * settings.lr)), "decoupled from the gradient"
