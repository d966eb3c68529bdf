"""Convolutional networks: MNIST's two layers, and a VGG for colour images of 32 x 32 pixels."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adanorm.config.model_sections import MnistCnnConfig, VggConfig
from adanorm.models.norm_sites import PlacedNorms

MNIST_SIDE, COLOR_SIDE = 28, 32  # pixels


class MnistCnn(nn.Module):
    """Convolutions and a linear layer, with norms around each activation (paper, section 2.2).

    `norm_axes` is `all` (statistics over all units of a layer for one image, H x W x C, like Ba et
    al. 2016), `channels` (over the channels of each position) or `width` (over a channel's row of
    pixels). The authors' module does the last to (B, C, H, W), because its statistics are over the
    last axis. `norm_position` is `pre`, `post` (behind the activation) or `sandwich` (one norm on
    either side). `hidden` units form a layer between the convolutions and the output, with norms in
    the same position.
    """

    def __init__(self, make_norm: PlacedNorms, settings: MnistCnnConfig, *, classes: int) -> None:
        super().__init__()
        self.norm_axes, self.position = settings.norm_axes, settings.norm_position or "pre"
        self.convs, self.norms, self.output_norms = (
            nn.ModuleList(),
            nn.ModuleList(),
            nn.ModuleList(),
        )

        def add_norms(dim: int, after: str) -> None:
            index = len(self.norms)
            self.norms.append(
                make_norm(
                    dim,
                    site=f"norms.{index}",
                    after=after,
                )
            )
            if self.position == "sandwich":
                self.output_norms.append(make_norm(dim, site=f"output_norms.{index}"))

        side, channels_in, kernel_size = MNIST_SIDE, 1, settings.kernel_size
        for index, channels in enumerate(settings.channels):
            self.convs.append(
                nn.Conv2d(
                    channels_in,
                    channels,
                    kernel_size,
                )
            )
            side -= kernel_size - 1
            dims = {"all": channels * side * side, "channels": channels, "width": side}
            add_norms(dims[self.norm_axes], after=f"convs.{index}")
            side, channels_in = side // 2, channels
        features = channels_in * side * side
        self.hidden = nn.Linear(features, settings.hidden) if settings.hidden else None
        if settings.hidden:
            add_norms(settings.hidden, after="hidden")
        self.output = nn.Linear(settings.hidden or features, classes)
        # With features last, the norms read contiguous rows and the convolutions are faster.
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (B, classes) of images (B, 1, 28, 28)."""
        x = images.contiguous(memory_format=torch.channels_last)
        for index, conv in enumerate(self.convs):
            x = self._activated(conv(x), index)
        x = x.flatten(1)
        if self.hidden is not None:
            x = self._activated(self.hidden(x), len(self.convs))
        return self.output(x)

    def _activated(self, x: Tensor, index: int) -> Tensor:
        """Return units (B, H) or (B, C, H, W) after norms and ReLU; the latter are pooled."""
        norm = self.norms[index]
        if self.position == "pre":
            # Pooling commutes with ReLU; done first, it leaves ReLU a quarter of the units.
            return F.relu(
                _pooled(
                    _normalized(
                        norm,
                        x,
                        self.norm_axes,
                    )
                )
            )
        if self.position == "sandwich":
            x = _normalized(norm, x, self.norm_axes)
            norm = self.output_norms[index]
        return _pooled(
            _normalized(
                norm,
                F.relu(x),
                self.norm_axes,
            )
        )


def _normalized(norm: nn.Module, x: Tensor, axes: str) -> Tensor:
    """Return x normalized in its shape: (B, H) over H, or (B, C, H, W) over the chosen axes."""
    if x.dim() == 2 or axes == "width":
        return norm(x)
    rows = x.permute(0, 2, 3, 1)
    if axes == "channels":
        z = norm(rows)
    else:
        z = norm(rows.flatten(1)).view(rows.shape)
    return z.permute(0, 3, 1, 2)


def _pooled(x: Tensor) -> Tensor:
    return F.max_pool2d(x, 2) if x.dim() == 4 else x


class Vgg(nn.Module):
    """Blocks of convolutions with a norm before each ReLU, and pooling at the end of a block.

    After Simonyan and Zisserman 2015. `blocks` holds the channels of each block's convolutions;
    `norm_axes` is `all` or `channels`.
    """

    def __init__(self, make_norm: PlacedNorms, settings: VggConfig, *, classes: int) -> None:
        super().__init__()
        blocks, self.norm_axes = settings.blocks, settings.norm_axes
        if COLOR_SIDE >> len(blocks) == 0:
            raise ValueError(
                f"model.blocks: {len(blocks)} leave nothing of {COLOR_SIDE} pixels to pool"
            )
        self.convs, self.norms = nn.ModuleList(), nn.ModuleList()
        self._closing = set()  # indices of each block's last convolution
        side, channels_in = COLOR_SIDE, 3
        for block in blocks:
            for channels_out in block:
                conv = nn.Conv2d(
                    channels_in,
                    channels_out,
                    3,
                    padding=1,
                )
                nn.init.kaiming_normal_(
                    conv.weight, nonlinearity="relu"
                )  # keeps the variance without norms
                nn.init.zeros_(conv.get_parameter("bias"))
                dim = channels_out if self.norm_axes == "channels" else channels_out * side * side
                index = len(self.convs)
                self.norms.append(
                    make_norm(
                        dim,
                        site=f"norms.{index}",
                        after=f"convs.{index}",
                    )
                )
                self.convs.append(conv)
                channels_in = channels_out
            self._closing.add(len(self.convs) - 1)
            side //= 2
        self.output = nn.Linear(channels_in * side * side, classes)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (B, classes) of images (B, 3, 32, 32)."""
        x = images.contiguous(memory_format=torch.channels_last)
        for index, conv in enumerate(self.convs):
            x = _normalized(
                self.norms[index],
                conv(x),
                self.norm_axes,
            )
            if index in self._closing:
                x = _pooled(x)  # before the activation, as in MnistCnn
            x = F.relu(x)
        return self.output(x.flatten(1))
