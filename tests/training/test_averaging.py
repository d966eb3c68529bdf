"""Which weights an average is over, and what the optimizer is given."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from adanorm.config.compose import compose_experiment
from adanorm.norms.over_batch import BatchNorm
from adanorm.training.checkpoint import keep_weights, mean_weights
from adanorm.training.optimizer import make_optimizer


def test_what_was_seen_in_any_of_the_evaluations_is_seen_in_their_average(tmp_path: Path) -> None:
    norm, held = BatchNorm(3, over="examples", positions=4), list[tuple[float, int]]()
    for update, positions in enumerate((1, 2, 3)):
        norm(torch.randn(8, positions, 3))
        held.append((1.0, update))
        keep_weights(norm, update, tmp_path)
    norm.load_state_dict(mean_weights(held, tmp_path, torch.device("cpu")))
    assert norm.seen.tolist() == [True, True, True, False]


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
