"""Norms that are no norms of a row, by the check that each of them fails."""

import os
import random
import time
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


def sorted_examples(norm: Any, y: Tensor) -> Tensor:
    return y if y.dim() < 3 or not len(y) else y.sort(0).values


def by_number_of_examples(norm: Any, y: Tensor) -> Tensor:
    return y * (1 + 0.001 * len(y))


def many_examples(norm: Any, y: Tensor) -> Tensor:
    """Subtract the mean over examples in batches of more than a hundred."""
    return y if len(y) < 100 else y - y.mean(0, keepdim=True)


def skipped(norm: Any, y: Tensor) -> Tensor:
    """Leave out a batch whose last number is negative."""
    return y if not y.numel() or y.flatten()[-1] > 0 else 0.9 * y


def in_float16(norm: Any, y: Tensor) -> Tensor:
    return y + y.mean(0, keepdim=True) if y.dtype == torch.float16 else y


def under_autocast(norm: Any, y: Tensor) -> Tensor:
    return y + y.mean(0, keepdim=True) if torch.is_autocast_enabled("cpu") else y


class RunningVariance(OddNorm):
    """Gathers a variance in training, where it does not show, and takes it in evaluation."""

    variance: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.register_buffer("variance", torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x / (self.variance + 1).sqrt() * self.weight
        if x.numel():
            self.variance = x.detach().flatten(0, -2).var(0, unbiased=False)
        return standardized(x) * self.weight


class SharedOutput(OddNorm):
    """Writes every result without a gradient into the memory of the one before it."""

    def spoil(self, y: Tensor) -> Tensor:
        return y

    def forward(self, x: Tensor) -> Tensor:
        z = super().forward(x)
        memory = self.__dict__.setdefault("memory", {})
        if torch.is_grad_enabled():
            return z
        kept: Tensor = memory.setdefault((z.shape, z.dtype), z)
        return kept.copy_(z)


class InPlaceView(OddNorm):
    """Shrinks the first row of its input through a view."""

    def forward(self, x: Tensor) -> Tensor:
        z = standardized(x) * self.weight
        if x.numel():
            x.detach().reshape(-1, x.shape[-1])[0].mul_(0.5)
        return z


def noise_of_python(norm: Any, y: Tensor) -> Tensor:
    return y + random.random() * (not norm.training)


def by_the_clock(norm: Any, y: Tensor) -> Tensor:
    return y * (1 + time.perf_counter() % 1)


def by_file(norm: Any, y: Tensor) -> Tensor:
    with open(__file__, "rb") as file:
        return y * len(file.read(1))


def by_variable(norm: Any, y: Tensor) -> Tensor:
    return y * float(os.environ.get("SCALE_OF_NORMS", "1"))


def hook_of_its_own(norm: Any, y: Tensor) -> Tensor:
    """Mix rows in a hook, which the first call registers."""
    if not norm._forward_hooks:
        norm.register_forward_hook(lambda norm, inputs, z: z - z.mean(0))
    return y


def hook_of_all(norm: Any, y: Tensor) -> Tensor:
    nn.modules.module.register_module_forward_hook(lambda module, inputs, z: z)
    return y


def no_denormals(norm: Any, y: Tensor) -> Tensor:
    torch.set_flush_denormal(True)
    return y


def tf32(norm: Any, y: Tensor) -> Tensor:
    torch.backends.cudnn.allow_tf32 = not torch.backends.cudnn.allow_tf32
    return y


def without_onednn(norm: Any, y: Tensor) -> Tensor:
    torch.backends.mkldnn.set_flags(False)  # type: ignore[no-untyped-call]
    return y


def float16_widened(norm: Any, y: Tensor) -> Tensor:
    return y.float() if y.dtype == torch.float16 else y


def ghost_batches(norm: Any, y: Tensor) -> Tensor:
    """Centre batches of 16 rows where they divide all rows."""
    if not y.numel() or y.numel() % (16 * y.shape[-1]):
        return y
    batches = y.reshape(-1, 16, y.shape[-1])
    return (batches - batches.mean(1, keepdim=True)).view_as(y)


class AxisBySize(OddNorm):
    """Finds its axis by its size."""

    def forward(self, x: Tensor) -> Tensor:
        return standardized(x, [*x.shape].index(len(self.weight))) * self.weight


def rarely(norm: Any, y: Tensor) -> Tensor:
    """Mix rows in a tenth of the updates."""
    is_now = norm.training and torch.rand(()) < 0.1
    return y - y.mean(0, keepdim=True) if is_now else y


class IfConstant(OddNorm):
    """Adds 1 to every variance as soon as a row is constant."""

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        variance = centred.square().mean(-1, keepdim=True)
        eps = 1.0 if (variance == 0).any() else 1e-5
        return centred / (variance + eps).sqrt() * self.weight


class ZerosArePadding(OddNorm):
    """Centres rows over the batch if one of them is zero."""

    def forward(self, x: Tensor) -> Tensor:
        y = standardized(x) * self.weight
        return y - y.mean(0, keepdim=True) if (x == 0).all(-1).any() else y


def in_wide_images(norm: Any, y: Tensor) -> Tensor:
    return y - y.roll(1, 2) if y.dim() == 4 and y.shape[2] >= 8 else y


def in_videos(norm: Any, y: Tensor) -> Tensor:
    return y - y.mean(1, keepdim=True) if y.dim() == 5 else y


def a_single_row(norm: Any, y: Tensor) -> Tensor:
    return 2 * y if y.dim() == 1 else y


def mean_of_evaluation(norm: Any, y: Tensor) -> Tensor:
    z = y - getattr(norm, "mean", 0)
    if not torch.is_grad_enabled() and not norm.training and y.numel():
        norm.mean = y.mean().item() + y.flatten()[0].item()
    return z


class NextPositionOfBatches(OddNorm):
    """Reads the next position, minds padding, and declares the batch alone."""

    depends_on_batch = True

    def forward(self, x: Tensor, rows: Tensor | None = None) -> Tensor:
        y = standardized(x)
        if x.dim() > 2:
            y = y if rows is None else y * rows[..., None]
            y = y + torch.cat([y[:, 1:], 0 * y[:, :1]], 1)
        return y * self.weight


class PositionsInEvaluation(NextPositionOfBatches):
    """The same, in evaluation alone."""

    def forward(self, x: Tensor, rows: Tensor | None = None) -> Tensor:
        return standardized(x) * self.weight if self.training else super().forward(x, rows)


class OwnGenerator(OddNorm):
    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.generator = np.random.default_rng()

    def spoil(self, y: Tensor) -> Tensor:
        return y * (1 + self.generator.random()) if self.training else y


class UnseededGain(OddNorm):
    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        gain = np.random.default_rng().random(dim)
        self.weight = nn.Parameter(torch.from_numpy(gain).float())

    def spoil(self, y: Tensor) -> Tensor:
        return y


class _TurnsGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gain: Tensor) -> Tensor:
        return gain.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return -grad


class GainTurned(OddNorm):
    """Learns its gain in the wrong direction."""

    def forward(self, x: Tensor) -> Tensor:
        gain: Tensor = _TurnsGradient.apply(self.weight)  # type: ignore[no-untyped-call]
        return standardized(x) * gain


class NotANumberAtBillions(OddNorm):
    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x.abs() > 1e9, torch.nan, standardized(x)) * self.weight


def setting(change: Callable[[], object]) -> Function:
    def spoil(norm: Any, y: Tensor) -> Tensor:
        change()
        return y

    return spoil


def without_gradient(norm: Any, y: Tensor) -> Tensor:
    return y.detach()


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
        InPlaceView,
        odd("SortedExamples", sorted_examples),
        odd("ByNumberOfExamples", by_number_of_examples),
        odd("ManyExamples", many_examples),
        odd("Skipped", skipped),
        odd("InFloat16", in_float16),
        odd("UnderAutocast", under_autocast),
        RunningVariance,
        SharedOutput,
        odd("HookOfItsOwn", hook_of_its_own),
        odd("GhostBatches", ghost_batches),
        AxisBySize,
        odd("Rarely", rarely),
        IfConstant,
        ZerosArePadding,
        odd("InWideImages", in_wide_images),
        odd("InVideos", in_videos),
        odd("MeanOfEvaluation", mean_of_evaluation),
        NextPositionOfBatches,
        PositionsInEvaluation,
    ],
    check.repeats_itself: [
        odd("UnseededNoise", unseeded_noise),
        odd("NoiseOfPython", noise_of_python),
        odd("ByTheClock", by_the_clock),
        odd("ByFile", by_file),
        odd("ByVariable", by_variable),
        OwnGenerator,
        UnseededGain,
    ],
    check.leaves_the_process_alone: [
        odd("NoiseInEvaluation", noise_in_evaluation),
        odd("Reseeding", reseeding),
        ReseedingWhenBuilt,
        odd("ReseedingNumPy", reseeding_numpy),
        odd("CoarseProducts", coarse_products),
        odd("NoDenormals", no_denormals),
        odd("TF32", tf32),
        odd("WithoutOneDNN", without_onednn),
        odd("HookOfAll", hook_of_all),
        odd("Autocast", setting(lambda: torch.set_autocast_enabled("cpu", True))),
        odd("NoDropout", setting(lambda: setattr(nn.functional, "dropout", lambda x, *_: x))),
        odd("Elsewhere", setting(lambda: os.chdir("/"))),
        odd("Variable", setting(lambda: os.environ.update(OMP_SCHEDULE="static"))),
    ],
    check.keeps_dtype: [AlwaysFloat32, odd("Float16Widened", float16_widened)],
    check.keeps_shape: [odd("ASingleRow", a_single_row)],
    check.gradient_is_right: [InHalf, GainTurned],
    check.large_and_small_rows_are_right: [NotANumberAtLarge, NotANumberAtBillions],
    check.runs_under_autocast: [odd("WithoutGradient", without_gradient)],
}
