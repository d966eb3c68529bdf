"""BatchNorm over the examples alone, against torch's BatchNorm1d at every position by itself."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from adanorm.config.compose import compose_experiment
from adanorm.models.norm_compatibility import compatible_norm
from adanorm.norms import NormChoice, norm_factory
from adanorm.norms.over_batch import BatchNorm

B, T, H = 6, 4, 3


def norm(**settings: object) -> BatchNorm:
    made = norm_factory(NormChoice("batchnorm", {"over": "examples", **settings}))(H, site="here")
    assert isinstance(made, BatchNorm)
    return made


def test_it_is_torchs_batchnorm_at_each_position() -> None:
    torch.manual_seed(0)
    ours, torchs = norm(positions=T), [nn.BatchNorm1d(H) for _ in range(T)]
    for train in (True, True, False):
        ours.train(train)
        x = torch.randn(B, T, H) * torch.arange(1.0, T + 1)[:, None] + 2
        expected = torch.stack([one.train(train)(x[:, t]) for t, one in enumerate(torchs)], 1)
        torch.testing.assert_close(ours(x), expected)
    torch.testing.assert_close(
        ours.by_position.running_var, torch.stack([one.get_buffer("running_var") for one in torchs])
    )


def test_padding_is_in_no_statistic_of_its_position() -> None:
    torch.manual_seed(0)
    x, rows = torch.randn(B, T, H), torch.ones(B, T, dtype=torch.bool)
    rows[2:, 3] = False
    ours, torchs = norm(), nn.BatchNorm1d(H)
    torch.testing.assert_close(ours(x, rows)[:2, 3], torchs(x[:2, 3]))
    torch.testing.assert_close(ours.by_position.running_mean[3], torchs.get_buffer("running_mean"))
    torch.testing.assert_close(ours.by_position.running_var[3], torchs.get_buffer("running_var"))
    assert ours.by_position.seen[3]


def test_an_unseen_position_takes_the_running_values_of_the_last_seen_one() -> None:
    torch.manual_seed(0)
    ours, rows = norm(positions=3), torch.ones(B, T, dtype=torch.bool)
    rows[1:, 2:] = False  # one example has a third and a fourth position: no statistics
    ours(5 + torch.randn(B, T, H), rows)
    assert ours.by_position.seen.tolist() == [True, True, False]
    assert (ours.by_position.running_mean[2] == 0).all()
    assert (ours.by_position.running_var[2] == 1).all()
    x = torch.randn(2, 5, H)
    z = ours.eval()(x)
    torch.testing.assert_close(norm(positions=1).eval()(x), x * (1 + 1e-5) ** -0.5)
    mean, variance = ours.by_position.running_mean[1], ours.by_position.running_var[1]
    torch.testing.assert_close(z[:, 1:], (x[:, 1:] - mean) * (variance + 1e-5).rsqrt())


def test_what_shows_it_no_positions_is_refused_with_the_reason() -> None:
    with pytest.raises(
        ValueError, match="statistics are a position's, and the sites show it one row an example"
    ):
        compatible_norm(
            compose_experiment(["task=enwik8-rnn", "norm=batchnorm", "norm.params.over=examples"])
        )
    with pytest.raises(ValueError, match="over='features': choose rows or examples"):
        norm(over="features")
    for positions in (0, 2.5):
        with pytest.raises(ValueError, match=f"positions={positions}: must be a whole number above 0"):
            norm(positions=positions)
    assert compatible_norm(compose_experiment(["task=rt", "norm=batchnorm", "norm.params.over=examples"]))
