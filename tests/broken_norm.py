"""A norm that can be built and breaks when it is trained."""

from __future__ import annotations

from torch import Tensor, nn


class RaisesInTraining(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        raise RuntimeError("breaks in training")
