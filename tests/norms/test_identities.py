"""What older papers and tutorials say of BatchNorm and LayerNorm, held against the norms in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from adanorm.norms.family import LayerNorm
from adanorm.norms.over_batch import BatchNorm

EPS = 1e-5


def drawn(*shape: int) -> Tensor:
    return 3 * torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 2


def standardized(numbers: list[Tensor]) -> list[Tensor]:
    mean = sum(numbers, torch.zeros(())) / len(numbers)
    variance = sum(((number - mean) ** 2 for number in numbers), torch.zeros(())) / len(numbers)
    return [(number - mean) / (variance + EPS) ** 0.5 for number in numbers]


def test_layernorm_is_two_nested_loops_over_examples_and_positions() -> None:
    x = drawn(3, 4, 5)
    z = LayerNorm(5).double()(x)
    for i in range(3):
        for j in range(4):
            torch.testing.assert_close(z[i, j], torch.stack(standardized(list(x[i, j]))))


def test_batchnorm_is_a_loop_over_features_whose_rows_are_those_of_all_positions() -> None:
    x = drawn(3, 4, 5)
    z = BatchNorm(5).double()(x)
    for j in range(5):
        torch.testing.assert_close(z[..., j].flatten(), torch.stack(standardized(list(x[..., j].flatten()))))


def test_a_gain_of_the_deviation_and_a_bias_of_the_mean_give_x_back() -> None:
    """Ioffe & Szegedy 2015, section 3: the normalized layer can represent the identity."""
    x = drawn(7, 5)
    batch, row = BatchNorm(5).double(), LayerNorm(5).double()
    batch.load_state_dict(
        {**batch.state_dict(), "weight": (x.var(0, correction=0) + EPS).sqrt(), "bias": x.mean(0)}
    )
    deviation = (x[0].var(correction=0) + EPS).sqrt()
    row.load_state_dict({"weight": deviation.expand(5), "bias": x[0].mean().expand(5)})
    torch.testing.assert_close(batch(x), x)
    torch.testing.assert_close(row(x[0]), x[0])


@pytest.mark.parametrize("gain", [0.3, 2.0])
def test_batchnorm_bounds_the_gradient_as_santurkar_et_al_prove(gain: float) -> None:
    """Theorem 4.1, of a feature y over m examples, g = dl/dz behind a norm z of gain gamma.

    |dl/dy|^2 <= gamma^2/sigma^2 (|g|^2 - <1, g>^2/m - <g, y_hat>^2/m), with equality where eps is 0.
    """
    y, g = drawn(9, 5).requires_grad_(), drawn(5, 9).T
    for eps, close in ((1e-12, True), (1.0, False)):
        norm = BatchNorm(5, eps=eps).double()
        norm.load_state_dict({**norm.state_dict(), "weight": torch.full((5,), gain)})
        (found,) = torch.autograd.grad(norm(y), y, g)
        variance = y.detach().var(0, correction=0)
        hat = (y.detach() - y.detach().mean(0)) / (variance + eps).sqrt()
        removed = g.sum(0) ** 2 / 9 + (g * hat).sum(0) ** 2 / 9
        bound = gain**2 / variance * (g.square().sum(0) - removed)
        if close:
            torch.testing.assert_close(found.square().sum(0), bound)
        else:
            assert (found.square().sum(0) < bound).all()
