"""The paper's norms against their formulas, in which nothing is detached."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from adanorm.norms import AdaNorm, LayerNorm, LayerNormSimple, NormChoice, TopK, norm_factory
from tests.norms.cases import assert_same

BY_GRADIENT = ("grad-only", "grad-mean", "grad-variance")
FAMILY = ("layernorm-simple", "detachnorm", "detach-mean", "detach-var", "gradnorm", *BY_GRADIENT, "adanorm")
MEAN_STOPPED = ("detachnorm", "detach-mean", "grad-variance")
VARIANCE_STOPPED = ("detachnorm", "detach-var", "grad-mean")


def deviation(x: Tensor, numerics: str) -> Tensor:
    squares = (x - x.sum(-1, keepdim=True) / x.shape[-1]).square().sum(-1, keepdim=True)
    return (
        (squares / x.shape[-1] + 1e-5).sqrt()
        if numerics == "paper"
        else (squares / (x.shape[-1] - 1)).sqrt() + 1e-5
    )


def formula(name: str, numerics: str, at: Tensor, x: Tensor) -> Tensor:
    """The paper's definition of rows x, with whatever is detached computed of other ones, `at`."""
    mean = (at if name in MEAN_STOPPED else x).mean(-1, keepdim=True)
    y = (x - mean) / deviation(at if name in VARIANCE_STOPPED else x, numerics)
    y_at = (at - at.mean(-1, keepdim=True)) / deviation(at, numerics)
    if name == "adanorm":
        return 1.5 * (1 - 0.2 * y_at) * y
    if name == "gradnorm":
        return at + y
    return at + y - y_at if name in BY_GRADIENT else y


@pytest.mark.parametrize("numerics", ["paper", "released"])
@pytest.mark.parametrize("name", FAMILY)
@pytest.mark.parametrize("shape", [(2,), (7,), (64,), (3, 4)])
def test_forward_and_gradient_follow_the_definition(name: str, numerics: str, shape: tuple[int, ...]) -> None:
    """Of rows, and of several last axes as one row."""
    x = 3 * torch.randn(5, math.prod(shape), dtype=torch.float64) + 2
    params = {"k": 0.2, "C": 1.5} if name == "adanorm" else {}
    norm = norm_factory(NormChoice(name, params, numerics))(shape, site="a")
    in_shape = nn.Sequential(nn.Unflatten(1, shape), norm, nn.Flatten())
    assert_same(in_shape, partial(formula, name, numerics, x), x)


def test_layernorm_is_torchs_to_the_bit() -> None:
    ours, theirs = LayerNorm(33), nn.LayerNorm(33)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, generator=torch.Generator().manual_seed(0))
    ours.load_state_dict(theirs.state_dict())
    x, results = torch.randn(5, 33, requires_grad=True), []
    for norm in (ours, theirs):
        z = norm(x)
        results.append([z, *torch.autograd.grad(z.square().sum(), [x, *norm.parameters()])])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
    simple = LayerNormSimple(33, backend="eager")
    assert torch.equal(simple(x), nn.functional.layer_norm(x, [33]))


def test_topk_is_layernorm_of_rows_whose_extremes_are_cut() -> None:
    norm, x = TopK(10, sigma=0.25).double(), torch.randn(50, 10, dtype=torch.float64)

    def written_out(x: Tensor) -> Any:
        ordered = x.sort(-1).values
        return norm_of_rows(x.clamp(ordered[:, 1:2], ordered[:, -2:-1]))  # k = 2

    norm_of_rows = nn.LayerNorm(10).double()
    for ours, theirs in zip(norm.parameters(), norm_of_rows.parameters(), strict=True):
        theirs.data.copy_(nn.init.normal_(ours))
    assert_same(norm, written_out, x)
    assert torch.autograd.gradgradcheck(norm, (x[:3].requires_grad_(),))
    assert TopK(128).k == 1
    assert TopK(512).k == 2


def test_norms_that_make_the_same_of_a_row_say_so() -> None:
    one, others = AdaNorm(8), [AdaNorm(8, k=0.2), AdaNorm(8, eps=1e-3), LayerNormSimple(8)]
    assert one.row_function is not None
    assert one.row_function == AdaNorm(8).row_function
    assert all(one.row_function != other.row_function for other in others)
    for other in (AdaNorm((2, 4)), AdaNorm(8, phi_gradient=True)):  # several axes; another gradient
        assert other.row_function is None


def test_a_norm_of_another_width_is_refused() -> None:
    with pytest.raises(ValueError, match="the last axis has 7"):
        AdaNorm(8)(torch.zeros(2, 7))
    assert not AdaNorm(1)(torch.ones(2, 1)).any()
    with pytest.raises(ValueError, match="released numerics divide by H - 1: H=1 is too small"):
        AdaNorm(1, numerics="released")
    with pytest.raises(ValueError, match=r"AdaNorm\(3, 4\): the last axes have \(4, 3\) features"):
        AdaNorm((3, 4))(torch.randn(2, 4, 3))
