"""The Vision Transformer, against torchvision's own with the same weights."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn

from adanorm.config.compose import compose_experiment
from adanorm.models import build_model
from adanorm.models.norm_sites import PlacedNorms
from adanorm.models.vision_transformer import torchvision_models
from tests.networks import placed

SIZES = {"image_size": 28, "patch_size": 14, "layers": 2, "dim": 8, "heads": 2, "ffn_dim": 16, "dropout": 0.0}


def built(norm: str, placement: str | list[str] = "all") -> tuple[nn.Module, PlacedNorms]:
    run = compose_experiment(["task=mnist-vit", "scale=smoke"])
    assert run.model.model_dump() == {**SIZES, "name": "vision_transformer"}
    sites = placed(norm, placement)
    torch.manual_seed(0)
    model = build_model(run.model, sites, classes=5)
    nn.init.normal_(model.get_parameter("vit.heads.head.weight"))  # torchvision has zeros there
    return model, sites


def test_with_layernorm_it_is_torchvisions() -> None:
    model, _ = built("layernorm")
    own = torchvision_models().VisionTransformer(
        28, 14, 2, 2, 8, 16, num_classes=5, norm_layer=partial(nn.LayerNorm, eps=1e-5)
    )
    own.load_state_dict({name.removeprefix("vit."): value for name, value in model.state_dict().items()})
    images = torch.randn(3, 1, 28, 28)
    for train in (True, False):
        torch.testing.assert_close(model.train(train)(images), own.train(train)(images.repeat(1, 3, 1, 1)))


def test_a_norm_sits_where_torchvision_has_its_own() -> None:
    model, sites = built("adanorm", "final")
    assert sites.swapped == ["vit.encoder.ln"]
    assert {n for n, m in model.named_modules() if isinstance(m, nn.LayerNorm)} == {*sites.kept}
    firsts = [f"vit.encoder.layers.encoder_layer_{index}.ln_1" for index in (0, 1)]
    assert built("adanorm", ["*.ln_1"])[1].swapped == firsts


def test_sizes_that_do_not_fit_are_an_error() -> None:
    for overrides, said in (
        (["model.image_size=32", "model.patch_size=8"], r"image_size=32: the images are of 28 x 28 pixels"),
        (["model.patch_size=5"], r"patch_size 5: must divide image_size \(28\)"),
        (["model.heads=3"], r"dim 64: must be a multiple of heads \(3\)"),
    ):
        with pytest.raises(ValueError, match=said):
            compose_experiment(["task=mnist-vit", *overrides])
