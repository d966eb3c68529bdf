"""The positions of norms that fairseq's layers can be told."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from torch import Tensor, nn

from adanorm.config.placements import deepnorm_of_pair, placements


def place_norms(model: Any, position: str, post_layers: int | None) -> None:
    """Tell the layers of an encoder-decoder where their norms sit, and draw DeepNorm's weights.

    A model whose position has a closing norm was built with pre-norm layers, another with post-norm
    ones. Raises ValueError where `mix` would have layers of one kind alone.
    """
    stacks = model.encoder.layers, model.decoder.layers
    for layers in stacks:
        stack = placements(position, len(layers), post_layers=post_layers)
        for layer, placement in zip(layers, stack, strict=True):
            layer.normalize_before = placement.attention.front
    if position == "deepnorm":
        for layers, scales in zip(stacks, deepnorm_of_pair(*map(len, stacks)), strict=True):
            _scale_stack(layers, *scales)


def _scale_stack(layers: Iterable[Any], skip_scale: float, gain: float) -> None:
    for layer in layers:
        cls: Any = type(layer)
        layer.__class__ = _with_skip_scale(cls)
        layer.skip_scale = skip_scale
        for name, module in layer.named_modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_normal_(module.weight, 1.0 if name.endswith(("q_proj", "k_proj")) else gain)


@cache
def _with_skip_scale(cls: Any) -> Any:
    """Return a class of fairseq's layers whose residual sum scales what is carried past a branch."""

    class Scaled(cls):  # type: ignore[misc]
        skip_scale: float

        def residual_connection(self, x: Tensor, residual: Tensor) -> Tensor:
            return self.skip_scale * residual + x

    return Scaled
