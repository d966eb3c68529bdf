"""MNIST's network and the VGG, against torch's modules and torchvision's."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.networks import network, torchvision_models


def standardized(x: Tensor, *axes: int) -> Tensor:
    return (x - x.mean(axes, keepdim=True)) / (
        x.var(
            axes,
            unbiased=False,
            keepdim=True,
        )
        + 1e-5
    ).sqrt()


@pytest.mark.parametrize(
    ("kind", "norm_axes", "axes"),
    [
        ("mnist_cnn", "all", (1, 2, 3)),
        ("mnist_cnn", "channels", (1,)),
        ("mnist_cnn", "width", (3,)),
        ("vgg", "all", (1, 2, 3)),
        ("vgg", "channels", (1,)),
    ],
)
def test_a_norm_is_over_the_axes_it_says_before_relu_and_pooling(
    kind: str, norm_axes: str, axes: tuple[int, ...]
) -> None:
    model = network(kind, "layernorm-simple", norm_axes=norm_axes)[0].double()
    shape = (3, 1, 28, 28) if kind == "mnist_cnn" else (3, 3, 32, 32)
    x = images = torch.randn(shape, dtype=torch.float64)
    for index, conv in enumerate(model.convs):
        x = F.relu(standardized(conv(x), *axes))
        if (kind, index) != ("vgg", 1):  # which is inside the VGG's second block
            x = F.max_pool2d(x, 2)
    torch.testing.assert_close(model(images), model.output(x.flatten(1)))


def test_a_vgg_computes_what_torchvisions_layers_do() -> None:
    model = network("vgg", "batchnorm")[0].double()
    layers = torchvision_models().vgg.make_layers([4, "M", 6, 8, "M"], batch_norm=True).double()
    convs = [layer for layer in layers if isinstance(layer, nn.Conv2d)]
    for conv, theirs in zip(model.convs, convs, strict=True):
        theirs.load_state_dict(conv.state_dict())
    images = torch.randn(
        3,
        3,
        32,
        32,
        dtype=torch.float64,
    )
    torch.testing.assert_close(model(images), model.output(layers(images).flatten(1)))


@pytest.mark.parametrize("position", [None, "post", "sandwich"])
def test_a_hidden_layers_norm_stands_where_the_others_do(position: str | None) -> None:
    settings: dict[str, Any] = {"hidden": 50, "norm_position": position}
    model = network("mnist_cnn", "layernorm-simple", **settings)[0].double()
    seen: list[Tensor] = []
    model.hidden.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    logits = model(
        torch.randn(
            3,
            1,
            28,
            28,
            dtype=torch.float64,
        )
    )
    x = model.hidden(seen[0])
    if position != "post":
        x = standardized(x, 1)
    x = F.relu(x)
    if position is not None:
        x = standardized(x, 1)
    torch.testing.assert_close(logits, model.output(x))


def test_five_blocks_leave_one_position_and_more_are_an_error() -> None:
    model, _ = network("vgg", "adanorm", blocks=[[2], [2], [3], [3], [4]])
    assert model.output.in_features == 4
    assert torch.isfinite(
        model(
            torch.randn(
                2,
                3,
                32,
                32,
            )
        )
    ).all()
    with pytest.raises(ValueError, match=r"model\.blocks: 6 leave nothing of 32 pixels to pool"):
        network("vgg", blocks=[[2]] * 6)


def test_activations_of_a_vgg_without_norms_keep_their_size() -> None:
    model, _ = network("vgg", "none", blocks=[[64] * 6])
    seen: list[float] = []
    for conv in model.convs:
        conv.register_forward_hook(lambda *call: seen.append(call[2].square().mean().item()))
    model(torch.randn(2, 3, 32, 32))
    assert 0.3 < seen[-1] / seen[0] < 3
