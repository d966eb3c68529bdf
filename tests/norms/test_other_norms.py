"""Norms of other papers against torch's own modules and their formulas, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adanorm.norms import AdaNorm, LayerNorm, NormChoice, norm_factory
from adanorm.norms.over_positions import GroupNorm, InstanceNorm
from adanorm.norms.pointwise import DynamicTanh
from adanorm.norms.rowwise import PartialRmsNorm, RmsNorm, ScaleNorm, WeightNorm
from tests.norms.cases import assert_same

B, T, H = 3, 5, 12
GAIN, BIAS = (torch.linspace(0.5, 1.5, H, dtype=torch.float64) + shift for shift in (0, -1))


def rows(*shape: int) -> Tensor:
    return 2 * torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 1


def with_gain(norm: nn.Module) -> nn.Module:
    norm = norm.double()
    with torch.no_grad():
        for name, parameter in norm.named_parameters():
            if name in ("weight", "bias"):
                parameter.copy_(GAIN if name == "weight" else BIAS)
    return norm


@pytest.mark.parametrize(("gain", "bias"), [(True, True), (True, False), (False, True), (False, False)])
def test_layernorm_with_gain_and_bias_each_or_neither(gain: bool, bias: bool) -> None:
    norm = with_gain(LayerNorm(H, gain=gain, bias=bias))
    weight, shift = GAIN if gain else None, BIAS if bias else None
    assert_same(norm, lambda x: F.layer_norm(x, [H], weight, shift), rows(B, T, H))
    assert len(list(norm.parameters())) == gain + bias


def test_layernorm_of_images_is_over_channels_height_and_width() -> None:
    x = rows(B, 2, 3, 4)
    y = (x - x.mean((1, 2, 3), keepdim=True)) / (x.var((1, 2, 3), correction=0, keepdim=True) + 1e-3).sqrt()
    torch.testing.assert_close(LayerNorm((2, 3, 4), eps=1e-3).double()(x), y)


def test_rmsnorm_with_eps_in_the_root_is_torchs() -> None:
    norm = with_gain(RmsNorm(H, eps=1e-2))
    assert_same(norm, lambda x: F.rms_norm(x, [H], GAIN, 1e-2), rows(B, T, H))


def test_rmsnorm_with_eps_outside_divides_by_the_root_plus_eps() -> None:
    norm = with_gain(RmsNorm(H, eps=0.5, eps_at="outside"))
    assert_same(norm, lambda x: GAIN * x / (x.square().mean(-1, keepdim=True).sqrt() + 0.5), rows(B, T, H))
    zeros = torch.zeros(2, H, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(norm(zeros).sum(), zeros)
    torch.testing.assert_close(gradient, (GAIN / 0.5).expand(2, H))


@pytest.mark.parametrize(("p", "counted"), [(0.0625, 1), (0.25, 3), (0.4, T), (1, H)])
def test_partial_rmsnorm_counts_the_first_features(p: float, counted: int) -> None:
    norm = with_gain(PartialRmsNorm(H, p=p, eps=1e-2))
    assert_same(
        norm,
        lambda x: GAIN * x / (x[..., :counted].square().sum(-1, keepdim=True) / counted + 1e-2).sqrt(),
        rows(B, T, H),
    )


def test_scalenorm_gives_rows_of_length_g() -> None:
    norm = ScaleNorm(H).double()
    assert norm.gain.item() == pytest.approx(math.sqrt(H))
    assert_same(norm, lambda x: norm.gain * x / x.square().sum(-1, keepdim=True).sqrt(), rows(B, T, H))
    shorter = ScaleNorm(H, eps=100.0).double()  # rows than eps
    assert_same(shorter, lambda x: shorter.gain * x / 100, rows(B, T, H))


def test_dynamic_tanh_is_its_formula() -> None:
    norm = with_gain(DynamicTanh(H, alpha=0.25))
    assert_same(norm, lambda x: GAIN * (1 - 2 / ((2 * 0.25 * x).exp() + 1)) + BIAS, rows(B, T, H))


@pytest.mark.parametrize("shape", [(B, T, H), (B, 4, T, H), (1, 70, H)])
def test_instancenorm_is_torchs(shape: tuple[int, ...]) -> None:
    norm = with_gain(InstanceNorm(H, gain=True, bias=True))
    assert_same(
        norm,
        lambda x: F.instance_norm(x.movedim(-1, 1), weight=GAIN, bias=BIAS).movedim(1, -1),
        rows(*shape),
    )


@pytest.mark.parametrize("shape", [(B, H), (B, T, H), (B, 4, T, H)])
@pytest.mark.parametrize("groups", [1, 3, H])
def test_groupnorm_is_torchs(groups: int, shape: tuple[int, ...]) -> None:
    if groups == H and len(shape) == 2:
        return  # a variance of single numbers: its derivatives are rounding alone
    norm = with_gain(GroupNorm(H, groups=groups))
    assert_same(
        norm, lambda x: F.group_norm(x.movedim(-1, 1), groups, GAIN, BIAS).movedim(1, -1), rows(*shape)
    )


def test_groupnorm_of_single_positions_is_torchs_of_rows() -> None:
    norm = with_gain(GroupNorm(H, groups=3, over_positions=False))
    assert_same(norm, lambda x: F.group_norm(x.reshape(-1, H), 3, GAIN, BIAS).view(x.shape), rows(B, T, H))


@pytest.mark.parametrize("make", [InstanceNorm, partial(GroupNorm, groups=3)])
def test_padded_positions_are_in_no_statistic(make: Callable[..., nn.Module]) -> None:
    x, counted = rows(B, T, H), (torch.arange(T) % 4 > 0).expand(B, T)
    norm = make(H).double()
    assert_same(lambda x: norm(x, counted)[:, counted[0]], lambda x: norm(x[:, counted[0]]), x)


def test_a_single_row_is_its_own_mean() -> None:
    x, norm = rows(B, T, H), InstanceNorm(H).double()
    assert not norm(x[:, :1]).any()
    assert not norm(x, torch.arange(T).expand(B, T) == 2)[:, 2].any()


def test_a_large_mean_costs_a_variance_over_positions_no_more_than_its_rounding() -> None:
    x, norm, counted = (
        (rows(B, 400, H) + 1e4).float(),
        InstanceNorm(H),
        torch.arange(400).expand(B, 400) < 300,
    )
    assert (norm(x) - norm(x.double())).abs().max() < 2e-3  # 1e4 has steps of 1e-3
    assert (norm(x, counted)[:, :300] - norm(x[:, :300].double())).abs().max() < 2e-3


def test_weightnorm_keeps_the_layer_as_it_was_drawn_and_learns_length_and_direction() -> None:
    layer = nn.Linear(4, H).double()
    x = rows(B, 4)
    before = layer(x)
    WeightNorm(H).attach(layer)
    torch.testing.assert_close(layer(x), before)
    parameters = dict(layer.named_parameters())
    length, direction = (parameters[f"parametrizations.weight.original{index}"] for index in (0, 1))
    assert length.numel() == H
    with torch.no_grad():
        length.mul_(2)
        direction.mul_(7)  # which changes nothing
    torch.testing.assert_close(layer(x) - layer.bias, 2 * (before - layer.bias))


def test_adanorms_factor_with_its_gradient_is_the_plain_product() -> None:
    norm = AdaNorm(H, k=0.2, C=1.5, phi_gradient=True, backend="eager").double()

    def product(x: Tensor) -> Tensor:
        y = (x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
        return 1.5 * (1 - 0.2 * y) * y

    assert_same(norm, product, rows(B, T, H))


def test_adanorm_learns_c_when_told_to() -> None:
    plain, learned = AdaNorm(H, C=1.5).double(), AdaNorm(H, C=1.5, learn_C=True).double()
    x = rows(B, T, H)
    assert_same(learned, plain, x)
    learned(x).sum().backward()
    (C,) = learned.parameters()
    assert C.grad is not None
    torch.testing.assert_close(C.grad, plain(x).sum() / 1.5)


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("groupnorm", {"groups": 0}, "groups=0: must be a whole number"),
        ("rmsnorm", {"eps_at": "inside"}, "choose root or outside"),
        ("partial-rmsnorm", {"p": 0}, "p=0: must be above 0 and at most 1"),
        ("partial-rmsnorm", {"p": 1.5}, "p=1.5: must be above 0 and at most 1"),
        ("dynamic-tanh", {"alpha": 0}, "alpha=0: must be above 0"),
        ("layernorm", {"eps": 0}, "eps=0: must be above 0"),
        ("layernorm", {"bias": 1}, "norm.params.bias=1: must be true or false"),
        ("rmsnorm", {"eps_at": 1}, "norm.params.eps_at=1: must be a word"),
        ("adanorm", {"k": True}, "norm.params.k=True: must be a number"),
    ],
)
def test_mistakes_name_the_setting(name: str, params: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        norm_factory(NormChoice(name, params))


def test_groups_that_do_not_divide_the_features_are_named() -> None:
    with pytest.raises(ValueError, match="groups=8: must be a whole number that divides the 20 features"):
        norm_factory(NormChoice("groupnorm"))(20, site="norms.0")


def test_instancenorm_of_rows_without_positions_is_refused() -> None:
    with pytest.raises(ValueError, match="has no positions"):
        InstanceNorm(H)(torch.ones(B, H))
