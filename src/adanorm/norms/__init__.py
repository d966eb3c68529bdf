"""The norms, each usable on its own: `from adanorm.norms import AdaNorm`."""

from adanorm.norms.family import (
    AdaNorm,
    DetachMean,
    DetachNorm,
    DetachVariance,
    LayerNorm,
    LayerNormSimple,
    NoNorm,
)
from adanorm.norms.registry import NORMS, MakeNorm, norm_class, norm_factory

__all__ = [
    "NORMS",
    "AdaNorm",
    "DetachMean",
    "DetachNorm",
    "DetachVariance",
    "LayerNorm",
    "LayerNormSimple",
    "MakeNorm",
    "NoNorm",
    "norm_class",
    "norm_factory",
]
