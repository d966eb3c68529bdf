"""Norms that can be built and break when they are used."""

import sys
from typing import NoReturn

from torch import Tensor, nn

from adanorm.norms.registry import TRIAL_WIDTH


class RaisesInTraining(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-1] == TRIAL_WIDTH:  # the contract's trial, before training
            return x
        raise RuntimeError("breaks in training")


class Leaves(RaisesInTraining):
    def forward(self, x: Tensor) -> NoReturn:
        sys.exit()
