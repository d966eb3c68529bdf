"""Norms and tasks as the paper writes them."""

from __future__ import annotations

TITLES = {
    "none": "w/o Norm",
    "layernorm": "LayerNorm",
    "layernorm-simple": "LayerNorm-simple",
    "detachnorm": "DetachNorm",
    "detach-mean": "Detach Mean",
    "detach-var": "Detach Variance",
    "adanorm": "AdaNorm",
    "batchnorm": "BatchNorm",
    "batchnorm-noisy": "noisy BatchNorm",
    "powernorm": "PowerNorm",
    "instancenorm": "InstanceNorm",
    "groupnorm": "GroupNorm",
    "rmsnorm": "RMSNorm",
    "partial-rmsnorm": "partial RMSNorm",
    "scalenorm": "ScaleNorm",
    "dynamic-tanh": "DyT",
    "weightnorm": "WeightNorm",
    "en-de": "En-De",
    "de-en": "De-En",
    "en-vi": "En-Vi",
    "enwik8": "Enwiki8",
    "enwik8-lstm": "Enwiki8, LSTM",
    "enwik8-gru": "Enwiki8, GRU",
    "rt": "RT",
    "sst5": "SST5",
    "mnist": "MNIST",
    "ptb": "PTB",
    "gaussian": "Gaussian",
    "cifar10": "CIFAR-10",
}


def title(name: str) -> str:
    """Return the name of a norm or a task as the paper writes it; another name as it is."""
    return TITLES.get(name, name)
