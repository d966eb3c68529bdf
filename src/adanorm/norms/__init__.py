"""The norms, each usable on its own: `from adanorm.norms import AdaNorm`."""

try:
    import torch  # noqa: F401
except ModuleNotFoundError as error:
    text = "the norms need PyTorch: install torch, or adanorm[norms]"
    raise ModuleNotFoundError(text, name="torch") from error

from adanorm.norms.base import Norm
from adanorm.norms.family import (
    AdaNorm,
    DetachMean,
    DetachNorm,
    DetachVariance,
    GradMean,
    GradNorm,
    GradOnly,
    GradScale,
    GradVariance,
    LayerNorm,
    LayerNormSimple,
    NoNorm,
    TopK,
)
from adanorm.norms.over_rows import BatchNorm, GroupNorm, InstanceNorm, NoisyBatchNorm, PowerNorm
from adanorm.norms.registry import NORMS, MakeNorm, NormChoice, NormFactory, norm_factory
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
    "GradMean",
    "GradNorm",
    "GradOnly",
    "GradScale",
    "GradVariance",
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
    "PartialRmsNorm",
    "Pointwise",
    "PowerNorm",
    "PreAffineRmsNorm",
    "RmsNorm",
    "ScaleNorm",
    "SeeDNorm",
    "SimpleRmsNorm",
    "TopK",
    "WeightNorm",
    "norm_factory",
]
