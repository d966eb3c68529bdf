"""Which weights an average is over, and what the optimizer is given."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from adanorm.config.compose import compose_experiment
from adanorm.config.sections import AverageConfig
from adanorm.norms.over_batch import BatchNorm
from adanorm.training.checkpoint import keep_weights, mean_weights
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


def test_what_was_seen_in_any_of_the_evaluations_is_seen_in_their_average(tmp_path: Path) -> None:
    norm, held = BatchNorm(3, over="examples", positions=4), list[tuple[float, int]]()
    average = AverageConfig.model_validate({"of": "last", "count": 3})
    for update, positions in enumerate((1, 2, 3)):
        norm(torch.randn(8, positions, 3))
        held.append((1.0, update))
        keep_weights(norm, held, average, SelectionMetric("accuracy", True), tmp_path, write=True)
    norm.load_state_dict(mean_weights(held, tmp_path, torch.device("cpu")))
    assert norm.seen.tolist() == [True, True, True, False]


def test_the_optimizer_has_the_settings_of_training_weight_decay_among_them() -> None:
    settings = compose_experiment(
        ["task=rt", "training.weight_decay=0.25", "training.betas=[0.8, 0.95]", "training.eps=1e-3"]
    ).training
    model = nn.Linear(2, 2)
    before = model.weight.detach().clone()
    optimizer = make_optimizer(model, settings)
    (group,) = optimizer.param_groups
    assert (group["lr"], group["betas"], group["eps"]) == (settings.lr, (0.8, 0.95), 1e-3)
    assert group["fused"], "one pass over memory, whose rounding the records have"
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    assert torch.allclose(model.weight, before * (1 - 0.25 * settings.lr)), "decoupled from the gradient"


@pytest.mark.parametrize("momentum", [None, 0.9])
def test_sgd_is_torchs_and_goes_on_from_its_saved_state(momentum: float | None) -> None:
    given = f"training.momentum={'null' if momentum is None else momentum}"
    settings = compose_experiment(
        ["task=rt", "training.optimizer=sgd", "training.lr=0.1", "training.weight_decay=0.05", given]
    ).training
    torch.manual_seed(0)
    x, y = torch.randn(8, 3, dtype=torch.float64), torch.randn(8, 2, dtype=torch.float64)
    ours = nn.Linear(3, 2).double()
    weight, bias = (p.detach().clone().requires_grad_() for p in ours.parameters())
    theirs = torch.optim.SGD([weight, bias], lr=0.1, momentum=momentum or 0, weight_decay=0.05, foreach=False)
    optimizer = make_optimizer(ours, settings)
    assert optimizer.param_groups[0]["fused"]
    for update in range(4):
        if update == 2:  # a run that was stopped and goes on
            saved = optimizer.state_dict()
            optimizer = make_optimizer(ours, settings)
            optimizer.load_state_dict(saved)
        for made, predicted in ((optimizer, ours(x)), (theirs, x @ weight.T + bias)):
            made.zero_grad()
            (predicted - y).square().mean().backward()
            made.step()
    torch.testing.assert_close(ours.weight, weight, rtol=0, atol=1e-12)
    torch.testing.assert_close(ours.bias, bias, rtol=0, atol=1e-12)


def test_optimizers_are_told_apart_and_adam_is_the_default() -> None:
    digests = [
        compose_experiment(["task=rt", *overrides]).digest()
        for overrides in ([], ["training.optimizer=adam"], ["training.optimizer=sgd"])
    ]
    assert digests[0] == digests[1] != digests[2]
    for override, message in (
        ("training.optimizer=rmsprop", "choose adam, sgd"),
        ("training.momentum=0.9", "nothing reads it in this run; read by training.optimizer=sgd"),
    ):
        with pytest.raises(ValueError, match=message):
            compose_experiment(["task=rt", override])
