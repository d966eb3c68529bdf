"""The MNIST network: two convolutions and a linear layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adanorm.models.norm_sites import PlacedNorms

SIDE = 28  # pixels


class MnistCnn(nn.Module):
    """Conv, conv, linear, with a norm in front of each activation (paper, section 2.2).

    `norm_axes`: `all` normalizes over every unit of a layer of one image (H x W x C, as Ba et
    al. 2016), `channels` over the channels of each position.
    """

    def __init__(
        self,
        make_norm: PlacedNorms,
        *,
        channels: Sequence[int],
        kernel_size: int,
        norm_axes: Literal["all", "channels"],
        classes: int,
    ) -> None:
        super().__init__()
        self.norm_axes = norm_axes
        self.convs, self.norms = nn.ModuleList(), nn.ModuleList()
        side, channels_in = SIDE, 1
        for index, channels_out in enumerate(channels):
            self.convs.append(nn.Conv2d(channels_in, channels_out, kernel_size))
            side -= kernel_size - 1
            if side < 2:
                raise ValueError(f"model.kernel_size={kernel_size}: leaves no image to pool in layer {index}")
            dim = channels_out if norm_axes == "channels" else channels_out * side * side
            self.norms.append(make_norm(dim, site=f"norms.{index}"))
            side, channels_in = side // 2, channels_out
        self.output = nn.Linear(channels_in * side * side, classes)
        # Features last: the norms then read contiguous rows, and the convolutions are faster too.
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (B, classes) of images (B, 1, 28, 28)."""
        x = images.contiguous(memory_format=torch.channels_last)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = conv(x).permute(0, 2, 3, 1)
            x = norm(x) if self.norm_axes == "channels" else norm(x.flatten(1)).view(x.shape)
            # Pooling first: it commutes with ReLU, which then sees a quarter of the units.
            x = F.relu(F.max_pool2d(x.permute(0, 3, 1, 2), 2))
        logits: Tensor = self.output(x.flatten(1))
        return logits
