"""The models, which know norms only through make_norm(dim, *, site, after, closes_stack)."""

from pkgutil import resolve_name
from typing import Any

from torch import nn

from adanorm.config.model_sections import MODELS, ModelConfig
from adanorm.models.fast_layers import replace_layers
from adanorm.models.norm_sites import PlacedNorms


def build_model(settings: ModelConfig, make_norm: PlacedNorms, **sizes: Any) -> nn.Module:
    """Return the model of a configuration, with weights drawn by torch's global generator.

    `sizes` are what its data decide, such as the number of `classes`.
    """
    model = resolve_name(MODELS[type(settings)])(
        make_norm,
        settings,
        **sizes,
    )
    replace_layers(model)
    return model
