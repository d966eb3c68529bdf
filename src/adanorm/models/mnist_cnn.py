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
    """Conv, conv, linear, with a norm in front of each activation (paper, section 2.2), or elsewhere.

    `norm_axes`: `all` normalizes over every unit of a layer of one image (H x W x C, as Ba et
    al. 2016), `channels` over the channels of each position. `norm_position` puts the norm behind
    the activation, `post`, or one on either side, `sandwich`.
    """

    def __init__(
        self,
        make_norm: PlacedNorms,
        *,
        channels: Sequence[int],
        kernel_size: int,
        norm_axes: Literal["all", "channels"],
        classes: int,
        norm_position: Literal["post", "sandwich"] | None = None,
    ) -> None:
        super().__init__()
        self.norm_axes, self.position = norm_axes, norm_position or "pre"
        self.convs, self.norms, self.output_norms = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        side, channels_in = SIDE, 1
        for index, channels_out in enumerate(channels):
            self.convs.append(nn.Conv2d(channels_in, channels_out, kernel_size))
            side -= kernel_size - 1
            if side < 2:
                raise ValueError(f"model.kernel_size={kernel_size}: leaves no image to pool in layer {index}")
            dim = channels_out if norm_axes == "channels" else channels_out * side * side
            self.norms.append(make_norm(dim, site=f"norms.{index}", after=f"convs.{index}"))
            if norm_position == "sandwich":
                self.output_norms.append(make_norm(dim, site=f"output_norms.{index}"))
            side, channels_in = side // 2, channels_out
        self.output = nn.Linear(channels_in * side * side, classes)
        # Features last: the norms then read contiguous rows, and the convolutions are faster too.
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (B, classes) of images (B, 1, 28, 28)."""
        x = images.contiguous(memory_format=torch.channels_last)
        for index, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            x = conv(x)
            if self.position == "pre":
                # Pooling first: it commutes with ReLU, which then sees a quarter of the units.
                x = F.relu(F.max_pool2d(self._normalized(norm, x), 2))
            else:
                between = self._normalized(norm, x) if self.position == "sandwich" else x
                last = self.output_norms[index] if self.position == "sandwich" else norm
                x = F.max_pool2d(self._normalized(last, F.relu(between)), 2)
        logits: Tensor = self.output(x.flatten(1))
        return logits

    def _normalized(self, norm: nn.Module, x: Tensor) -> Tensor:
        """Return x (B, C, H, W) normalized over the axes that were chosen."""
        rows = x.permute(0, 2, 3, 1)
        z: Tensor = norm(rows) if self.norm_axes == "channels" else norm(rows.flatten(1)).view(rows.shape)
        return z.permute(0, 3, 1, 2)
