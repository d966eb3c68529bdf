"""The MNIST network's settings that the paper leaves open, against the same written out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adanorm.models.convolutional import MnistCnn
from adanorm.models.norm_sites import PlacedNorms
from adanorm.norms import NormChoice, norm_factory


def cnn(**settings: Any) -> MnistCnn:
    torch.manual_seed(0)
    placed = PlacedNorms(norm_factory(NormChoice("layernorm-simple")), "all")
    return MnistCnn(placed, channels=[4, 6], kernel_size=5, classes=10, **{"norm_axes": "all", **settings})


def standardized(x: Tensor, *axes: int) -> Tensor:
    return (x - x.mean(axes, keepdim=True)) / (x.var(axes, unbiased=False, keepdim=True) + 1e-5).sqrt()


@pytest.mark.parametrize(("norm_axes", "axes"), [("all", (1, 2, 3)), ("channels", (1,)), ("width", (3,))])
def test_a_norm_is_over_the_axes_it_says(norm_axes: str, axes: tuple[int, ...]) -> None:
    model = cnn(norm_axes=norm_axes)
    x = images = torch.randn(3, 1, 28, 28)
    for conv in model.convs:
        x = F.max_pool2d(F.relu(standardized(conv(x), *axes)), 2)
    torch.testing.assert_close(model(images), model.output(x.flatten(1)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("position", [None, "post", "sandwich"])
def test_a_hidden_layers_norm_stands_where_the_others_do(position: str | None) -> None:
    model = cnn(hidden=50, norm_position=position)
    seen: list[Tensor] = []
    assert isinstance(model.hidden, nn.Linear)
    model.hidden.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    logits = model(torch.randn(3, 1, 28, 28))
    x = model.hidden(seen[0])
    x = F.relu(x if position == "post" else standardized(x, 1))
    x = x if position is None else standardized(x, 1)
    torch.testing.assert_close(logits, model.output(x), rtol=1e-4, atol=1e-5)
