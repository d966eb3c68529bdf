"""Convolutional networks: MNIST's two layers, and a VGG for colour images of 32 x 32 pixels."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adanorm.config.model_sections import MnistCnnConfig, VggConfig
from adanorm.models.norm_sites import PlacedNorms

MNIST_SIDE, COLOR_SIDE = 28, 32  # pixels


class MnistCnn(nn.Module):
    """Conv, conv, linear, with a norm in front of each activation (paper, section 2.2), or elsewhere.

    `norm_axes`: `all` normalizes over every unit of a layer of one image (H x W x C, as Ba et
    al. 2016), `channels` over the channels of each position, `width` over a channel's row of pixels:
    what the authors' module, whose statistics are over the last axis, does to (B, C, H, W).
    `norm_position` puts the norm behind the activation, `post`, or one on either side, `sandwich`.
    `hidden` units make a layer between the convolutions and the output, its norm placed alike.
    """

    def __init__(self, make_norm: PlacedNorms, settings: MnistCnnConfig, *, classes: int) -> None:
        super().__init__()
        self.norm_axes, self.position = settings.norm_axes, settings.norm_position or "pre"
        self.convs, self.norms, self.output_norms = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()

        def add_norms(dim: int, after: str) -> None:
            index = len(self.norms)
            self.norms.append(make_norm(dim, site=f"norms.{index}", after=after))
            if self.position == "sandwich":
                self.output_norms.append(make_norm(dim, site=f"output_norms.{index}"))

        side, channels_in, kernel_size = MNIST_SIDE, 1, settings.kernel_size
        for index, channels in enumerate(settings.channels):
            self.convs.append(nn.Conv2d(channels_in, channels, kernel_size))
            side -= kernel_size - 1
            if side < 2:
                raise ValueError(f"model.kernel_size={kernel_size}: leaves no image to pool in layer {index}")
            dims = {"all": channels * side * side, "channels": channels, "width": side}
            add_norms(dims[self.norm_axes], after=f"convs.{index}")
            side, channels_in = side // 2, channels
        features = channels_in * side * side
        self.hidden = nn.Linear(features, settings.hidden) if settings.hidden else None
        if settings.hidden:
            add_norms(settings.hidden, after="hidden")
        self.output = nn.Linear(settings.hidden or features, classes)
        # Features last: the norms then read contiguous rows, and the convolutions are faster too.
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (B, classes) of images (B, 1, 28, 28)."""
        x = images.contiguous(memory_format=torch.channels_last)
        for index, conv in enumerate(self.convs):
            x = self._activated(conv(x), index)
        x = x.flatten(1)
        if self.hidden is not None:
            x = self._activated(self.hidden(x), len(self.convs))
        logits: Tensor = self.output(x)
        return logits

    def _activated(self, x: Tensor, index: int) -> Tensor:
        """Return a layer's units, (B, H) or (B, C, H, W), normalized and through ReLU; the latter pooled."""
        norm = self.norms[index]
        if self.position == "pre":
            # Pooling first: it commutes with ReLU, which then sees a quarter of the units.
            return F.relu(_pooled(_normalized(norm, x, self.norm_axes)))
        if self.position == "sandwich":
            x, norm = _normalized(norm, x, self.norm_axes), self.output_norms[index]
        return _pooled(_normalized(norm, F.relu(x), self.norm_axes))


def _normalized(norm: nn.Module, x: Tensor, axes: str) -> Tensor:
    """Return x (B, H), or (B, C, H, W) normalized over the axes that were chosen."""
    if x.dim() == 2 or axes == "width":
        as_it_is: Tensor = norm(x)
        return as_it_is
    rows = x.permute(0, 2, 3, 1)
    z: Tensor = norm(rows) if axes == "channels" else norm(rows.flatten(1)).view(rows.shape)
    return z.permute(0, 3, 1, 2)


def _pooled(x: Tensor) -> Tensor:
    return F.max_pool2d(x, 2) if x.dim() == 4 else x


class Vgg(nn.Module):
    """Convolutions with a norm in front of each ReLU, pooled at the end of a block.

    After Simonyan and Zisserman 2015. `blocks` holds the channels of each convolution; of `norm_axes` it has
    `all` and `channels`.
    """

    def __init__(self, make_norm: PlacedNorms, settings: VggConfig, *, classes: int) -> None:
        super().__init__()
        blocks, self.norm_axes = settings.blocks, settings.norm_axes
        if COLOR_SIDE >> len(blocks) == 0:
            raise ValueError(f"model.blocks: {len(blocks)} leave nothing of {COLOR_SIDE} pixels to pool")
        self.convs, self.norms = nn.ModuleList(), nn.ModuleList()
        self._closing = set()  # of the convolutions: the last of each block
        side, channels_in = COLOR_SIDE, 3
        for block in blocks:
            for channels_out in block:
                conv = nn.Conv2d(channels_in, channels_out, 3, padding=1)
                nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")  # keeps the variance without norms
                nn.init.zeros_(conv.get_parameter("bias"))
                dim = channels_out if self.norm_axes == "channels" else channels_out * side * side
                index = len(self.convs)
                self.norms.append(make_norm(dim, site=f"norms.{index}", after=f"convs.{index}"))
                self.convs.append(conv)
                channels_in = channels_out
            self._closing.add(len(self.convs) - 1)
            side //= 2
        self.output = nn.Linear(channels_in * side * side, classes)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (B, classes) of images (B, 3, 32, 32)."""
        x = images.contiguous(memory_format=torch.channels_last)
        for index, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            x = _normalized(norm, conv(x), self.norm_axes)
            x = F.relu(_pooled(x) if index in self._closing else x)  # pooling first, as above
        logits: Tensor = self.output(x.flatten(1))
        return logits
