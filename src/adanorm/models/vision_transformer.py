"""torchvision's Vision Transformer, with norms from `make_norm` instead of LayerNorm."""

import importlib
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from adanorm.config.model_sections import VisionTransformerConfig
from adanorm.models.norm_sites import PlacedNorms
from adanorm.norms import Norm

LIBRARY = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]


@cache
def torchvision_models() -> Any:
    """Return torchvision.models; if it was built for another PyTorch, declare two operators first."""
    try:
        return importlib.import_module("torchvision.models")
    except RuntimeError:
        for operator in ("nms", "qnms"):
            schema = f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            LIBRARY.define(schema)  # type: ignore[no-untyped-call]
        return importlib.import_module("torchvision.models")


class VisionTransformer(nn.Module):
    """torchvision.models.VisionTransformer for square images; grey images become three equal channels.

    Dosovitskiy et al. 2021: patches and a class token go through pre-norm layers, then the token
    through a linear layer. Only `norm_layer` is ours; torchvision draws the weights, and the
    output's are zero. Sites have the names of torchvision's modules, such as
    `vit.encoder.layers.encoder_layer_0.ln_1`.
    """

    def __init__(
        self, make_norm: PlacedNorms, settings: VisionTransformerConfig, *, classes: int
    ) -> None:
        super().__init__()
        # In the order in which torchvision creates the norms, each with the layer before it.
        sites: list[tuple[str, str | None]] = []
        before = None
        for index in range(settings.layers):
            layer = f"vit.encoder.layers.encoder_layer_{index}"
            sites += [
                (f"{layer}.ln_1", before),
                (f"{layer}.ln_2", f"{layer}.self_attention.out_proj"),
            ]
            before = f"{layer}.mlp.3"
        remaining = iter([*sites, ("vit.encoder.ln", before)])

        def norm_layer(dim: int) -> Norm:
            site, after = next(remaining)
            return make_norm(dim, site=site, after=after, closes_stack=site == "vit.encoder.ln")

        stack = settings.layers, settings.heads, settings.dim, settings.ffn_dim, settings.dropout
        self.vit = torchvision_models().VisionTransformer(
            settings.image_size,
            settings.patch_size,
            *stack,
            num_classes=classes,
            norm_layer=norm_layer,
        )

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (B, classes) for images (B, 1 or 3, side, side)."""
        return self.vit(images.expand(-1, 3, -1, -1))
