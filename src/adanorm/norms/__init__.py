"""The norms, each usable on its own: `from adanorm.norms import AdaNorm`."""

from adanorm.norms.base import Norm
from adanorm.norms.family import (
    AdaNorm,
    DetachMean,
    DetachNorm,
    DetachVariance,
    LayerNorm,
    LayerNormSimple,
    NoNorm,
)
from adanorm.norms.over_batch import BatchNorm, NoisyBatchNorm, PowerNorm
from adanorm.norms.over_positions import GroupNorm, InstanceNorm
from adanorm.norms.registry import NORMS, MakeNorm, NormChoice, NormFactory, NormSettings, norm_factory
from adanorm.norms.rowwise import (
    Derf,
    DynamicTanh,
    GatedNorm,
    PartialRmsNorm,
    Pointwise,
    PreAffineRmsNorm,
    RmsNorm,
    ScaleNorm,
    SeeDNorm,
    SimpleRmsNorm,
    WeightNorm,
)

__all__ = [
    "NORMS",
    "AdaNorm",
    "BatchNorm",
    "Derf",
    "DetachMean",
    "DetachNorm",
    "DetachVariance",
    "DynamicTanh",
    "GatedNorm",
    "GroupNorm",
    "InstanceNorm",
    "LayerNorm",
    "LayerNormSimple",
    "MakeNorm",
    "NoNorm",
    "NoisyBatchNorm",
    "Norm",
    "NormChoice",
    "NormFactory",
    "NormSettings",
    "PartialRmsNorm",
    "Pointwise",
    "PowerNorm",
    "PreAffineRmsNorm",
    "RmsNorm",
    "ScaleNorm",
    "SeeDNorm",
    "SimpleRmsNorm",
    "WeightNorm",
    "norm_factory",
]
