"""Norms that can be built and break when they are used."""

import sys
from typing import NoReturn

from torch import Tensor, nn


class RaisesInTraining(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        raise RuntimeError("breaks in training")


class Leaves(RaisesInTraining):
    def forward(self, x: Tensor) -> NoReturn:
        sys.exit()
