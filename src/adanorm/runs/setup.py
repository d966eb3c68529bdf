"""What a run is computed with: its norm at its sites, its device."""

from __future__ import annotations

import os

import torch

from adanorm.config.experiment import Experiment
from adanorm.models.norm_sites import PlacedNorms
from adanorm.norms import norm_factory


def placed_norms(experiment: Experiment) -> PlacedNorms:
    """Return what puts an experiment's norm at its sites; raises ValueError for a norm that cannot be."""
    norm = experiment.norm
    make_norm = norm_factory(
        norm.name, norm.params, numerics=norm.numerics, backend=norm.backend, path=norm.path
    )
    return PlacedNorms(make_norm, norm.placement)


def choose_device(experiment: Experiment) -> torch.device:
    """Return the device of this process; raises ValueError for cuda where there is none."""
    cuda = torch.cuda.is_available()
    if experiment.device == "cuda" and not cuda:
        raise ValueError("device=cuda: torch sees no CUDA device here; choose auto or cpu")
    if experiment.device == "cpu" or not cuda:
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    return device
