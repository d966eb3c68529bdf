"""Norms whose statistics are taken over several rows: those of a batch, or the positions of an example.

x and the result are (B, ..., H). Of padded sequences the caller tells which rows count.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed.nn import functional as joint

from adanorm.norms.base import Affine, check_choice, upcast


def masked_moments(
    x: Tensor, dims: Sequence[int], rows: Tensor | None, *, synchronized: bool | None = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean, biased variance and count over `dims` (kept, of size 1) of the rows that count.

    x is (B, ..., H); `rows` (B, ...) is true at what counts, None: all of it. `synchronized` takes them
    over all processes of the run, with their gradients. Where nothing counts, mean and variance are 0.
    """
    counted = torch.ones_like(x[..., :1], dtype=torch.bool) if rows is None else rows.unsqueeze(-1)
    counted, dims = counted.expand_as(x), list(dims)
    count = over_processes(counted.sum(dims, keepdim=True).to(x.dtype), synchronized)
    total = over_processes(x.masked_fill(~counted, 0).sum(dims, keepdim=True), synchronized)
    mean = total / count.clamp(min=1)
    squares = (x - mean).masked_fill(~counted, 0).square().sum(dims, keepdim=True)
    return mean, over_processes(squares, synchronized) / count.clamp(min=1), count


def over_processes(total: Tensor, synchronized: bool | None) -> Tensor:
    """Return the sum of a tensor over the run's processes, with its gradients, or the tensor itself."""
    if not (synchronized and distributed.is_initialized()):
        return total
    summed: Tensor = joint.all_reduce(total)  # type: ignore[no-untyped-call]
    return summed


class BatchNorm(Affine):
    """Return gain * (x - mean)/sqrt(variance + eps) + bias, a feature's statistics over the batch.

    Ioffe & Szegedy 2015, algorithm 1: the biased variance normalizes. In evaluation, and in a
    batch of fewer than two rows, such as the last of an epoch may be, the running values stand in
    for the batch's; they move by `momentum`, which is the weight of the new value under
    `convention` new (PyTorch's) and of the old value under old (that of the older libraries). The
    running variance is of the unbiased estimate, as algorithm 2 has it, or biased.
    `synchronized` takes the statistics over all processes. `over` rows takes them over examples and
    positions, examples over the examples of each position alone: the first `positions` (256) then have
    running values. A position that was not `seen` in training takes those of the last one before it that
    was, as Cooijmans et al. 2017 have it behind their longest sequence: in evaluation and, with fewer than
    two examples, in training. Raises ValueError for a momentum outside (0, 1) or an unknown choice.
    """

    depends_on_batch = True
    running_mean: Tensor
    running_var: Tensor
    seen: Tensor

    def __init__(
        self,
        dim: int,
        *,
        eps: float = 1e-5,
        momentum: float = 0.1,
        convention: str = "new",
        running_variance: str = "unbiased",
        synchronized: bool = False,
        gain: bool = True,
        bias: bool = True,
        over: str = "rows",
        positions: int = 256,
    ) -> None:
        super().__init__(dim, gain=gain, bias=bias, eps=eps)
        check_choice("over", over, "rows", "examples")
        check_choice("convention", convention, "new", "old")
        check_choice("running_variance", running_variance, "unbiased", "biased")
        if not 0 < momentum < 1:
            raise ValueError(f"momentum={momentum}: must be above 0 and below 1")
        self.synchronized = synchronized
        self.new_share = momentum if convention == "new" else 1 - momentum
        self.unbiased = running_variance == "unbiased"
        self.needs_positions = over == "examples"
        shape: tuple[int, ...] = (dim,)
        if self.needs_positions:
            if positions != int(positions) or positions < 1:
                raise ValueError(f"positions={positions}: must be a whole number above 0")
            shape = (int(positions), dim)
            self.register_buffer("seen", torch.zeros(int(positions), dtype=torch.bool))
        self.register_buffer("running_mean", torch.zeros(shape))
        self.register_buffer("running_var", torch.ones(shape))

    def forward(self, x: Tensor, rows: Tensor | None = None) -> Tensor:
        """Return z (B, ..., H); `rows` (B, ...) is true at the rows that statistics are taken over."""
        if not self.needs_positions:
            flat = x.reshape(-1, self.dim)
            if not self.training or (len(flat) < 2 and not self.synchronized):
                affine, running = (self.weight, self.bias), (self.running_mean, self.running_var)
                return nn.functional.batch_norm(flat, *running, *affine, eps=self._eps).view(x.shape)
            if rows is None and not self.synchronized:
                return self._by_torch(flat).view(x.shape)
        return self.affine(self._by_moments(x, rows), x)

    def _by_torch(self, flat: Tensor) -> Tensor:
        """Return the same by torch's kernel, where every row counts and there is one process."""
        z, mean, inverse_std = torch.native_batch_norm(
            flat, self.weight, self.bias, None, None, training=True, momentum=0.0, eps=self._eps
        )
        variance = inverse_std.detach().pow(-2) - self._eps
        self._move(mean, variance.clamp(min=0), len(flat) / (len(flat) - 1), None)
        return z

    def _by_moments(self, x: Tensor, rows: Tensor | None) -> Tensor:
        """Return y (B, ..., H), in float32 at least; of fewer than two rows running values stand in.

        How many rows count is known on the device alone, and nothing here waits for it.
        """
        broad, counted, dims = upcast(x), rows, range(x.dim() - 1)
        mean, variance = self.running_mean, self.running_var
        if self.needs_positions:
            broad, counted, dims = broad.flatten(1, -2), None if rows is None else rows.flatten(1), range(1)
            taken = self._stand_in(broad.shape[1])
            mean, variance = mean[taken], variance[taken]
        mean, variance = mean.to(broad), variance.to(broad)
        if self.training and (len(x) or self.synchronized):
            own = masked_moments(broad, dims, counted, synchronized=self.synchronized)
            own_mean, own_variance, count = (moment.reshape(mean.shape) for moment in own)
            enough = count >= 2
            mean = torch.where(enough, own_mean, mean)
            variance = torch.where(enough, own_variance, variance)
            self._move(own_mean, own_variance, count / (count - 1).clamp(min=1), enough)
        return ((broad - mean) * (variance + self._eps).rsqrt()).view(x.shape)

    @torch.no_grad()
    def _move(self, mean: Tensor, variance: Tensor, factor: float | Tensor, enough: Tensor | None) -> None:
        """Move the running values, those that have `enough` rows or all, towards a batch's.

        `factor` makes its variance the unbiased estimate. Positions past the last that is kept have none.
        """
        if self.unbiased:
            variance = variance * factor
        for kept, own in ((self.running_mean, mean), (self.running_var, variance)):
            running, new = kept[: len(own)], own[: len(kept)].to(kept.dtype)
            if enough is not None:
                new = torch.where(enough[: len(kept)], new, running)
            running.lerp_(new, self.new_share)
        if self.needs_positions and enough is not None:
            self.seen[: len(enough)] |= enough[: len(self.seen), 0]

    def _stand_in(self, positions: int) -> Tensor:
        """Return whose running values each of so many positions takes; before any was seen, the first's."""
        kept = torch.arange(len(self.seen), device=self.seen.device)
        last = torch.where(self.seen, kept, 0).cummax(0).values
        return last[torch.arange(positions, device=kept.device).clamp(max=len(kept) - 1)]


class NoisyBatchNorm(BatchNorm):
    """Return BatchNorm's z, scaled and shifted in training by noise that is drawn anew at each step.

    Santurkar et al. 2018, section 2.2: for each feature a mean mu ~ U(-mean_range, mean_range) and
    a spread sigma ~ U(1, largest_spread) are drawn, and for each example s ~ N(sigma, jitter) and
    m ~ U(mu - jitter, mu + jitter); z is s * z + m. Their ranges 0.5, 1.25 and 0.1 are recalled
    from the appendix. torch's generator draws it, so a run's seed does. None in evaluation (assumed).
    """

    def __init__(
        self,
        dim: int,
        *,
        mean_range: float = 0.5,
        largest_spread: float = 1.25,
        jitter: float = 0.1,
        eps: float = 1e-5,
        momentum: float = 0.1,
    ) -> None:
        super().__init__(dim, eps=eps, momentum=momentum)
        self.synchronized = None  # each process would draw noise of its own
        limits = ("mean_range", mean_range, 0), ("largest_spread", largest_spread, 1), ("jitter", jitter, 0)
        for name, value, least in limits:
            if not least <= value < float("inf"):
                raise ValueError(f"{name}={value}: must be at least {least:g} and finite")
        self.mean_range, self.largest_spread, self.jitter = mean_range, largest_spread, jitter

    def forward(self, x: Tensor, rows: Tensor | None = None) -> Tensor:
        """Return z (B, ..., H), in training with noise."""
        z: Tensor = super().forward(x, rows)
        if not self.training:
            return z
        # In float32 whatever x is: another type would draw other numbers.
        feature = torch.rand(2, self.dim, device=x.device)
        mean = (2 * feature[0] - 1) * self.mean_range
        spread = 1 + feature[1] * (self.largest_spread - 1)
        scale = spread + self.jitter * torch.randn(x.shape, device=x.device)
        shift = mean + self.jitter * (2 * torch.rand(x.shape, device=x.device) - 1)
        return z * scale.to(z.dtype) + shift.to(z.dtype)


class PowerNorm(Affine):
    """Return gain * x/psi + bias, psi a feature's root mean square, running and never centred.

    Shen et al. 2020, algorithm 2: psi is the running value in training too, and the gradient's term
    through it is a running approximation. During the first `warmup` batches psi is the batch's, with
    its true gradient (their PN-V). `alpha` is the weight of the old value, forward and backward.
    Without the layer scale that the released code puts in front. Statistics are over all processes where
    `synchronized` is true. Raises ValueError for alpha outside (0, 1) or a negative warmup.
    """

    depends_on_batch = True
    running_square: Tensor
    projection: Tensor
    batches: Tensor

    def __init__(self, dim: int, *, alpha: float = 0.9, warmup: int = 100, eps: float = 1e-5) -> None:
        super().__init__(dim, gain=True, bias=True, eps=eps)
        if not 0 < alpha < 1:
            raise ValueError(f"alpha={alpha}: must be above 0 and below 1")
        if warmup < 0 or warmup != int(warmup):
            raise ValueError(f"warmup={warmup}: must be a whole number of batches, at least 0")
        self.alpha, self.warmup, self.synchronized = alpha, warmup, False
        self.register_buffer("running_square", torch.ones(dim))
        self.register_buffer("projection", torch.zeros(dim))  # nu of algorithm 2
        self.register_buffer("batches", torch.zeros((), dtype=torch.long))

    def forward(self, x: Tensor, rows: Tensor | None = None) -> Tensor:
        """Return z (B, ..., H); `rows` (B, ...) is true at the rows that statistics are taken over."""
        broad = upcast(x)
        # By rsqrt: MKL's sqrt, which torch takes, rounds otherwise on processors of another maker.
        inverse = (self.running_square + self._eps).rsqrt().to(broad.dtype)
        if not self.training or (x.numel() == 0 and not self.synchronized):
            return self.affine(broad * inverse, x)
        counted = torch.ones_like(x[..., :1], dtype=torch.bool) if rows is None else rows.unsqueeze(-1)
        square = self.mean(broad.square(), counted)
        if self.warmup and self.batches < self.warmup:  # the second waits for a GPU
            y = broad * (square + self._eps).rsqrt()
        else:
            y = _Scale.apply(broad, inverse, counted, self)  # type: ignore[no-untyped-call]
        with torch.no_grad():
            self.running_square.lerp_(square.to(self.running_square.dtype), 1 - self.alpha)
            self.batches += 1
        return self.affine(y, x)

    def mean(self, x: Tensor, counted: Tensor) -> Tensor:
        """Return the mean of each feature (H,) over the rows that count, 0 where none does."""
        total = over_processes((x * counted).sum(tuple(range(x.dim() - 1))), self.synchronized)
        return total / over_processes(counted.sum(), self.synchronized).clamp(min=1)


class _Scale(torch.autograd.Function):
    """x/psi with the gradient of algorithm 2; a derivative of that takes nu as the constant that it is."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, inverse: Tensor, counted: Tensor, norm: PowerNorm) -> Tensor:
        y = x * inverse
        ctx.save_for_backward(y, inverse, counted)
        ctx.norm = norm
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        y, inverse, counted = ctx.saved_tensors
        norm, nu = ctx.norm, ctx.norm.projection
        dx = (grad - nu.to(y.dtype, copy=True) * y) * inverse
        with torch.no_grad():
            square, product = (norm.mean(one, counted).to(nu.dtype) for one in (y * y, grad * y))
            nu.mul_(1 - (1 - norm.alpha) * square).add_((1 - norm.alpha) * product)
        return dx, None, None, None


class GroupNorm(Affine):
    """Return gain * (x - mean)/sqrt(variance + eps) + bias, statistics over a group of features.

    Wu & He 2018, equation 2: of one example, over its positions too unless `over_positions` is false;
    each position then stands alone. Raises ValueError unless `groups` divides H.
    """

    depends_on_positions = True

    def __init__(
        self,
        dim: int,
        *,
        groups: int = 8,
        over_positions: bool = True,
        eps: float = 1e-5,
        gain: bool = True,
        bias: bool = True,
    ) -> None:
        super().__init__(dim, gain=gain, bias=bias, eps=eps)
        if groups < 1 or groups != int(groups) or dim % groups:
            raise ValueError(f"groups={groups}: must be a whole number that divides the {dim} features")
        self.groups, self.depends_on_positions = int(groups), over_positions

    def forward(self, x: Tensor, rows: Tensor | None = None) -> Tensor:
        """Return z (B, ..., H); `rows` (B, ...) is true at the rows that statistics are taken over."""
        wide = upcast(x)
        if not self.depends_on_positions:
            y = self._by_torch(wide.reshape(-1, self.dim)).view(x.shape)
        elif rows is None:
            last = x.dim() - 1  # not -1: the legacy ONNX exporter then reads a size from outside the shape
            y = self._by_torch(wide.movedim(last, 1)).movedim(1, last).contiguous()
        else:
            y = self._masked(wide, rows)
        return self.affine(y, x)

    def _by_torch(self, x: Tensor) -> Tensor:
        """Return y of x (B, H, positions ...)."""
        return torch.group_norm(x, self.groups, eps=self._eps) if x.numel() else x

    def _masked(self, x: Tensor, rows: Tensor) -> Tensor:
        """Return y of x (B, positions ..., H), the statistics over the rows that count."""
        grouped = x.reshape(*x.shape[:-1], self.groups, -1)
        counted = rows.unsqueeze(-1).expand(grouped.shape[:-1])  # a group's own: (B, ..., groups)
        dims = (*range(1, x.dim() - 1), x.dim())
        mean, variance, _ = masked_moments(grouped, dims, counted)
        y: Tensor = (grouped - mean) * (variance + self._eps).rsqrt()
        return y.flatten(-2)


class InstanceNorm(GroupNorm):
    """Return (x - mean)/sqrt(variance + eps), a feature's statistics over an example's positions.

    Ulyanov et al. 2016; gain and bias only if asked for. Raises ValueError for x (B, H): no positions.
    """

    needs_positions = True

    def __init__(self, dim: int, *, eps: float = 1e-5, gain: bool = False, bias: bool = False) -> None:
        super().__init__(dim, groups=dim, eps=eps, gain=gain, bias=bias)


def synchronize(model: nn.Module) -> None:
    """Have norms over the batch take statistics over all processes; ValueError for one that cannot."""
    for name, module in model.named_modules():
        if getattr(module, "depends_on_batch", False):
            if getattr(module, "synchronized", None) is None:
                of = f"{name}: {type(module).__name__} is over the batch"
                raise ValueError(f"{of}, and not over several processes' shares of it; train in one process")
            module.synchronized = True
