"""Twenty-five norms that are no norms of a row, by the check that each of them fails."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from adanorm.norms import check
from adanorm.norms.check import Check

Function = Callable[[Any, Tensor], Tensor]


class OddNorm(nn.Module):
    """Standardizes rows, after a subclass has spoiled them."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        return self.spoil(standardized(x)) * self.weight

    def spoil(self, y: Tensor) -> Tensor:
        raise NotImplementedError


def standardized(x: Tensor, axis: int = -1) -> Tensor:
    centred = x - x.mean(axis, keepdim=True)
    return centred / (centred.square().mean(axis, keepdim=True) + 1e-5).sqrt()


def odd(name: str, spoil: Function) -> type[OddNorm]:
    return type(name, (OddNorm,), {"spoil": spoil})


class AxisOne(OddNorm):
    """LayerNorm with dim=1 instead of dim=-1."""

    def forward(self, x: Tensor) -> Tensor:
        return standardized(x, 1) * self.weight


def next_position(norm: Any, y: Tensor) -> Tensor:
    return y if y.dim() < 3 else y + y.roll(-1, 1)


def earlier_positions(norm: Any, y: Tensor) -> Tensor:
    return y if y.dim() < 3 else y.cumsum(1)


def over_examples(norm: Any, y: Tensor) -> Tensor:
    return y if y.dim() < 3 else y - y.mean(0, keepdim=True)


def over_images(norm: Any, y: Tensor) -> Tensor:
    return y - y.mean((1, 2), keepdim=True) if y.dim() == 4 else y


def in_windows(norm: Any, y: Tensor) -> Tensor:
    """Subtract from each position of a long example the one eight positions before it."""
    return y if y.dim() < 3 or y.shape[1] < 16 else y - y.roll(8, 1)


def in_the_middle(norm: Any, y: Tensor) -> Tensor:
    rows = list(y.flatten(0, -2))
    if len(rows) > 3:
        rows[2] = rows[2] + rows[1]
    return torch.stack(rows).view(y.shape) if rows else y


class LargestOfAll(OddNorm):
    """Scales all rows down once the largest number among them is too large."""

    def forward(self, x: Tensor) -> Tensor:
        largest = x.abs().max() if x.numel() else x.sum()
        return x / (largest / 1e4).clamp(min=1) * self.weight


def without_gradients(norm: Any, y: Tensor) -> Tensor:
    return y if torch.is_grad_enabled() else y - y.mean(0, keepdim=True)


def in_float32(norm: Any, y: Tensor) -> Tensor:
    is_fast = y.dtype == torch.float32 and y.dim() > 2
    return y - y.mean(1, keepdim=True) if is_fast else y


class _CentresGradients(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor) -> Tensor:
        return y.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad - grad.mean(1, keepdim=True) if grad.dim() > 2 else grad


def in_backward(norm: Any, y: Tensor) -> Tensor:
    z: Tensor = _CentresGradients.apply(y)  # type: ignore[no-untyped-call]
    return z


def by_length(norm: Any, y: Tensor) -> Tensor:
    return y / y.shape[1] if y.dim() > 2 else y


def by_place(norm: Any, y: Tensor) -> Tensor:
    return y + torch.arange(y.shape[-2]).to(y)[:, None]


class RunningMean(OddNorm):
    """Subtracts a running mean of earlier calls, also in evaluation, and declares nothing."""

    mean: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.register_buffer("mean", torch.zeros(dim))

    def spoil(self, y: Tensor) -> Tensor:
        z = y - self.mean
        if self.training and y.numel():
            batch = y.detach().flatten(0, -2).mean(0)
            self.mean = 0.9 * self.mean + 0.1 * batch
        return z


def last_row(norm: Any, y: Tensor) -> Tensor:
    """Add the last row of the call before, which a plain attribute keeps."""
    z = y + getattr(norm, "last", 0)
    norm.last = y.detach().flatten(0, -2)[-1] if y.numel() else 0
    return z


def unseeded_noise(norm: Any, y: Tensor) -> Tensor:
    return y + random.random() * norm.training


def noise_in_evaluation(norm: Any, y: Tensor) -> Tensor:
    return y + torch.randn_like(y)


def reseeding(norm: Any, y: Tensor) -> Tensor:
    torch.manual_seed(0)
    return y


def reseeding_numpy(norm: Any, y: Tensor) -> Tensor:
    np.random.seed(0)
    return y


class ReseedingWhenBuilt(OddNorm):
    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        torch.manual_seed(0)

    def spoil(self, y: Tensor) -> Tensor:
        return y


def coarse_products(norm: Any, y: Tensor) -> Tensor:
    torch.set_float32_matmul_precision("medium")
    return y


class InPlace(OddNorm):
    """Subtracts the mean from its input itself, as the released TopK clips the residual stream."""

    def forward(self, x: Tensor) -> Tensor:
        x.data -= x.data.mean(-1, keepdim=True)
        return standardized(x) * self.weight


class AlwaysFloat32(OddNorm):
    def forward(self, x: Tensor) -> Tensor:
        return standardized(x.float()) * self.weight.float()


class InHalf(OddNorm):
    """Computes in half precision, whatever the type of x."""

    def forward(self, x: Tensor) -> Tensor:
        return (standardized(x.half()) * self.weight).to(x.dtype)


class NotANumberAtLarge(OddNorm):
    def forward(self, x: Tensor) -> Tensor:
        return x.exp() / x.exp().sum(-1, keepdim=True) * self.weight


ODD_NORMS: dict[Check, list[type[nn.Module]]] = {
    check.rows_are_independent: [
        AxisOne,
        odd("NextPosition", next_position),
        odd("EarlierPositions", earlier_positions),
        odd("OverExamples", over_examples),
        odd("OverImages", over_images),
        odd("InWindows", in_windows),
        odd("InTheMiddle", in_the_middle),
        LargestOfAll,
        odd("WithoutGradients", without_gradients),
        odd("InFloat32", in_float32),
        odd("InBackward", in_backward),
        odd("ByLength", by_length),
        odd("ByPlace", by_place),
        RunningMean,
        odd("LastRow", last_row),
        InPlace,
    ],
    check.repeats_itself: [odd("UnseededNoise", unseeded_noise)],
    check.leaves_the_process_alone: [
        odd("NoiseInEvaluation", noise_in_evaluation),
        odd("Reseeding", reseeding),
        ReseedingWhenBuilt,
        odd("ReseedingNumPy", reseeding_numpy),
        odd("CoarseProducts", coarse_products),
    ],
    check.keeps_dtype: [AlwaysFloat32],
    check.gradient_is_right: [InHalf],
    check.large_and_small_rows_are_right: [NotANumberAtLarge],
}
