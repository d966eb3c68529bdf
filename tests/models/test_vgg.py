"""The VGG, against the same network of torch's own modules."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from adanorm.models.convolutional import Vgg
from adanorm.models.norm_sites import PlacedNorms
from adanorm.models.vision_transformer import torchvision_models
from adanorm.norms import NormChoice, norm_factory


def vgg(norm: str, norm_axes: str = "channels", blocks: tuple[tuple[int, ...], ...] = ((4,), (6, 8))) -> Vgg:
    torch.manual_seed(0)
    placed = PlacedNorms(norm_factory(NormChoice(norm)), "all")
    return Vgg(placed, blocks=blocks, norm_axes=norm_axes, classes=5)  # type: ignore[arg-type]


class ChannelNorm(nn.Module):
    """LayerNorm over the channels, as one group of a GroupNorm at each pixel."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        centred = x - x.mean(1, keepdim=True)
        return centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt()


@pytest.mark.parametrize(("norm_axes", "groups"), [("channels", False), ("all", True)])
def test_it_is_convolutions_norms_relu_and_pooling_in_their_usual_order(norm_axes: str, groups: bool) -> None:
    model = vgg("layernorm-simple", norm_axes)
    layers: list[nn.Module] = []
    for conv, pooled in zip(model.convs, (True, False, True), strict=True):
        channels = int(conv.get_parameter("weight").shape[0])
        norm = nn.GroupNorm(1, channels, affine=False) if groups else ChannelNorm()
        layers += [conv, norm, nn.ReLU(), *([nn.MaxPool2d(2)] if pooled else [])]
    plain = nn.Sequential(*layers, nn.Flatten(), model.output)
    images = torch.randn(3, 3, 32, 32)
    torch.testing.assert_close(model(images), plain(images), atol=1e-4, rtol=1e-4)
    assert model(images).shape == (3, 5)


def test_it_computes_what_torchvisions_layers_do() -> None:
    model = vgg("batchnorm")
    layers = torchvision_models().vgg.make_layers([4, "M", 6, 8, "M"], batch_norm=True)
    for conv, own in zip(model.convs, [x for x in layers if isinstance(x, nn.Conv2d)], strict=True):
        own.load_state_dict(conv.state_dict())
    images = torch.randn(3, 3, 32, 32)
    torch.testing.assert_close(model(images), model.output(layers(images).flatten(1)), atol=1e-4, rtol=1e-4)


def test_five_blocks_leave_one_position() -> None:
    model = vgg("adanorm", blocks=((2,), (2,), (3,), (3,), (4,)))
    assert model.output.in_features == 4
    assert torch.isfinite(model(torch.randn(2, 3, 32, 32))).all()


def test_more_blocks_than_the_image_can_be_halved_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"model\.blocks: 6 of them leave nothing of 32 pixels to pool"):
        vgg("none", blocks=((2,),) * 6)


def test_without_norms_what_passes_keeps_its_size() -> None:
    model = vgg("none", blocks=((64, 64, 64, 64, 64, 64),))
    seen: list[float] = []
    for conv in model.convs:
        conv.register_forward_hook(lambda *call: seen.append(call[2].square().mean().item()))
    model(torch.randn(2, 3, 32, 32))
    assert 0.3 < seen[-1] / seen[0] < 3
