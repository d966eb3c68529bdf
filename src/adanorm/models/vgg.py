"""A VGG for colour images of 32 x 32 pixels: blocks of 3x3 convolutions and a linear layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adanorm.models.norm_sites import PlacedNorms

SIDE = 32  # pixels


class Vgg(nn.Module):
    """Convolutions with a norm in front of each ReLU, pooled at the end of a block.

    After Simonyan and Zisserman 2015. `blocks` holds the channels of each convolution. `norm_axes`:
    `channels` normalizes over the channels of each position, `all` over every unit of a layer of one
    image (H x W x C, as Ba et al. 2016).
    """

    def __init__(
        self,
        make_norm: PlacedNorms,
        *,
        blocks: Sequence[Sequence[int]],
        norm_axes: Literal["channels", "all"],
        classes: int,
    ) -> None:
        super().__init__()
        if SIDE >> len(blocks) == 0:
            raise ValueError(f"model.blocks: {len(blocks)} of them leave nothing of {SIDE} pixels to pool")
        self.norm_axes = norm_axes
        self.convs, self.norms = nn.ModuleList(), nn.ModuleList()
        self._closing = set()  # of the convolutions: the last of each block
        side, channels_in = SIDE, 3
        for block in blocks:
            for channels_out in block:
                conv = nn.Conv2d(channels_in, channels_out, 3, padding=1)
                nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")  # keeps the variance without norms
                nn.init.zeros_(conv.get_parameter("bias"))
                dim = channels_out if norm_axes == "channels" else channels_out * side * side
                index = len(self.convs)
                self.norms.append(make_norm(dim, site=f"norms.{index}", after=f"convs.{index}"))
                self.convs.append(conv)
                channels_in = channels_out
            self._closing.add(len(self.convs) - 1)
            side //= 2
        self.output = nn.Linear(channels_in * side * side, classes)
        # Features last: the norms then read contiguous rows, and the convolutions are faster too.
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (B, classes) of images (B, 3, 32, 32)."""
        x = images.contiguous(memory_format=torch.channels_last)
        for index, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            x = conv(x).permute(0, 2, 3, 1)
            x = norm(x) if self.norm_axes == "channels" else norm(x.flatten(1)).view(x.shape)
            x = x.permute(0, 3, 1, 2)
            # Pooling first: it commutes with ReLU, which then sees a quarter of the units.
            x = F.relu(F.max_pool2d(x, 2) if index in self._closing else x)
        logits: Tensor = self.output(x.flatten(1))
        return logits
