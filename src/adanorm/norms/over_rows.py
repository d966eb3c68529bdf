"""Norms whose statistics are over several rows: a batch, or the positions of an example.

x and the result are (B, ..., H). For padded sequences the caller passes a mask of the rows that
count.
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
    """Return mean, biased variance and count over `dims`, which stay as axes of size 1.

    x is (B, ..., H). `rows` (B, ...) is true at the rows that count; None: all count.
    `synchronized` takes statistics over all processes of the run, with their gradients. Mean and
    variance are 0 if no row counts.
    """
    mask = _column(rows, x).expand_as(x)

    def total(values: Tensor) -> Tensor:
        share = values.sum(list(dims), keepdim=True)
        return over_processes(share.to(x.dtype), synchronized)

    count = total(mask)
    divisor = count.clamp(min=1)
    mean = total(x.masked_fill(~mask, 0)) / divisor
    centred = (x - mean).masked_fill(~mask, 0)
    return mean, total(centred.square()) / divisor, count


def _column(rows: Tensor | None, x: Tensor) -> Tensor:
    """Return the mask of rows that count as (B, ..., 1)."""
    if rows is None:
        return torch.ones_like(x[..., :1], dtype=torch.bool)
    return rows.unsqueeze(-1)


def over_processes(total: Tensor, synchronized: bool | None) -> Tensor:
    """Return the sum of `total` over the run's processes, or `total` without `synchronized`."""
    if not (synchronized and distributed.is_initialized()):
        return total
    return joint.all_reduce(total)  # type: ignore[no-untyped-call]


class BatchNorm(Affine):
    """Return gain * (x - mean)/sqrt(variance + eps) + bias; statistics are over the batch.

    Ioffe & Szegedy 2015, algorithm 1: the biased variance normalizes. Running values replace the
    batch's in evaluation and in a batch of fewer than two rows, which can be the last of an epoch.
    They move by `momentum`: the weight of the new value if `convention` is new (PyTorch's), of the
    old value if it is old (older libraries'). `running_variance` is the unbiased estimate, as in
    algorithm 2, or biased. `synchronized` takes the statistics over all processes. With `over` rows
    they are over examples and positions; with examples they are over the examples of each position
    alone, and the first `positions` have running values. In evaluation, a position not `seen` in
    training takes those of the last seen position before it, as Cooijmans et al. 2017 do beyond
    their longest sequence. In training, running values serve in this way at a position with fewer
    than two examples. Raises ValueError for a momentum outside (0, 1), an unknown choice, or
    `positions` that is not a whole number above 0.
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
        super().__init__(
            dim,
            gain=gain,
            bias=bias,
            eps=eps,
        )
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
        """Return z (B, ..., H); `rows` (B, ...) is true at the rows that count."""
        if not self.needs_positions:
            flat = x.reshape(-1, self.dim)
            if not self.training or (len(flat) < 2 and not self.synchronized):
                mean, variance = self.running_mean, self.running_var
                z = nn.functional.batch_norm(
                    flat, mean, variance, self.weight, self.bias, eps=self._eps
                )
                return z.view(x.shape)
            if rows is None and not self.synchronized:
                return self._by_torch(flat).view(x.shape)
        return self.affine(self._by_moments(x, rows), x)

    def _by_torch(self, flat: Tensor) -> Tensor:
        """Return z of rows (R, H) by torch's kernel, for one process in which every row counts."""
        z, mean, inverse_std = torch.native_batch_norm(
            flat, self.weight, self.bias, None, None, training=True, momentum=0.0, eps=self._eps
        )
        count = len(flat)
        variance = (inverse_std.detach().pow(-2) - self._eps).clamp(min=0)
        self._move(
            mean,
            variance,
            count / (count - 1),
            None,
        )
        return z

    def _by_moments(self, x: Tensor, rows: Tensor | None) -> Tensor:
        """Return y (B, ..., H) in float32 at least; running values serve for fewer than two rows.

        Only the device knows how many rows count, and nothing here waits for it.
        """
        wide = upcast(x)
        dims = range(x.dim() - 1)
        mean, variance = self.running_mean, self.running_var
        if self.needs_positions:
            wide = wide.flatten(1, -2)
            dims = range(1)
            rows = None if rows is None else rows.flatten(1)
            sources = self._last_seen(wide.shape[1])
            mean, variance = mean[sources], variance[sources]
        mean, variance = mean.to(wide), variance.to(wide)
        if self.training and (len(x) or self.synchronized):
            moments = masked_moments(
                wide,
                dims,
                rows,
                synchronized=self.synchronized,
            )
            batch_mean, batch_variance, count = (moment.reshape(mean.shape) for moment in moments)
            enough = count >= 2
            mean = torch.where(enough, batch_mean, mean)
            variance = torch.where(enough, batch_variance, variance)
            factor = count / (count - 1).clamp(min=1)
            self._move(batch_mean, batch_variance, factor, enough)
        y = (wide - mean) * (variance + self._eps).rsqrt()
        return y.view(x.shape)

    @torch.no_grad()
    def _move(
        self, mean: Tensor, variance: Tensor, factor: float | Tensor, enough: Tensor | None
    ) -> None:
        """Move the running values towards the batch's where `enough` is true; None: everywhere.

        `factor` turns the biased variance into the unbiased one. Positions past `positions` have no
        values.
        """
        if self.unbiased:
            variance = variance * factor
        for buffer, batch in ((self.running_mean, mean), (self.running_var, variance)):
            running = buffer[: len(batch)]
            new = batch[: len(buffer)].to(buffer.dtype)
            if enough is not None:
                new = torch.where(
                    enough[: len(buffer)],
                    new,
                    running,
                )
            running.lerp_(new, self.new_share)
        if self.needs_positions and enough is not None:
            self.seen[: len(enough)] |= enough[: len(self.seen), 0]

    def _last_seen(self, positions: int) -> Tensor:
        """Return for each position the index of the last one seen up to it, or 0: (positions,)."""
        count, device = len(self.seen), self.seen.device
        last = (
            torch.where(
                self.seen,
                torch.arange(count, device=device),
                0,
            )
            .cummax(0)
            .values
        )
        return last[torch.arange(positions, device=device).clamp(max=count - 1)]


class NoisyBatchNorm(BatchNorm):
    """Return BatchNorm's z, scaled and shifted in training by noise drawn anew at each step.

    Santurkar et al. 2018, section 2.2. Each feature draws a mean mu ~ U(-mean_range, mean_range)
    and a spread sigma ~ U(1, largest_spread). Each element of z then draws s ~ N(sigma, jitter) and
    m ~ U(mu - jitter, mu + jitter), and becomes s * z + m. The defaults 0.5, 1.25 and 0.1 are
    recalled from the appendix. torch's generator draws the noise, so a run's seed fixes it. None in
    evaluation (assumed).
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
        super().__init__(
            dim,
            eps=eps,
            momentum=momentum,
        )
        self.synchronized = None  # each process would draw noise of its own
        limits = (
            ("mean_range", mean_range, 0),
            ("largest_spread", largest_spread, 1),
            ("jitter", jitter, 0),
        )
        for name, value, least in limits:
            if not least <= value < float("inf"):
                raise ValueError(f"{name}={value}: must be at least {least:g} and finite")
        self.mean_range, self.largest_spread, self.jitter = mean_range, largest_spread, jitter

    def forward(self, x: Tensor, rows: Tensor | None = None) -> Tensor:
        """Return z (B, ..., H), with noise in training."""
        z = super().forward(x, rows)
        if not self.training:
            return z
        # In float32 for every type of x: another type would draw other numbers.
        drawn_mean, drawn_spread = torch.rand(
            2,
            self.dim,
            device=x.device,
        )
        mean = (2 * drawn_mean - 1) * self.mean_range
        spread = 1 + drawn_spread * (self.largest_spread - 1)
        scale = spread + self.jitter * torch.randn(x.shape, device=x.device)
        shift = mean + self.jitter * (2 * torch.rand(x.shape, device=x.device) - 1)
        return z * scale.to(z.dtype) + shift.to(z.dtype)


class PowerNorm(Affine):
    """Return gain * x/psi + bias; psi is a running root mean square of each feature.

    Shen et al. 2020, algorithm 2: psi is the running value in training too, and a running value
    also approximates the gradient's term through psi. During the first `warmup` batches psi is the
    batch's, with its true gradient (their PN-V). `alpha` is the weight of the old value, forward
    and backward. The layer scale in front, which the released code has, is left out. Statistics are
    over all processes if `synchronized` is true. Raises ValueError for alpha outside (0, 1) or a
    negative or fractional warmup.
    """

    depends_on_batch = True
    running_square: Tensor
    projection: Tensor
    batches: Tensor

    def __init__(
        self, dim: int, *, alpha: float = 0.9, warmup: int = 100, eps: float = 1e-5
    ) -> None:
        super().__init__(
            dim,
            gain=True,
            bias=True,
            eps=eps,
        )
        if not 0 < alpha < 1:
            raise ValueError(f"alpha={alpha}: must be above 0 and below 1")
        if warmup < 0 or warmup != int(warmup):
            raise ValueError(f"warmup={warmup}: must be a whole number of batches, at least 0")
        self.alpha, self.warmup, self.synchronized = alpha, warmup, False
        self.register_buffer("running_square", torch.ones(dim))
        self.register_buffer("projection", torch.zeros(dim))  # nu of algorithm 2
        self.register_buffer("batches", torch.zeros((), dtype=torch.long))

    def forward(self, x: Tensor, rows: Tensor | None = None) -> Tensor:
        """Return z (B, ..., H); `rows` (B, ...) is true at the rows that count."""
        wide = upcast(x)
        # rsqrt, because torch takes sqrt from MKL, which rounds differently on processors of
        # another maker.
        inverse = (self.running_square + self._eps).rsqrt().to(wide.dtype)
        if not self.training or (x.numel() == 0 and not self.synchronized):
            return self.affine(wide * inverse, x)
        mask = _column(rows, x)
        square = self.mean(wide.square(), mask)
        if self.warmup and self.batches < self.warmup:  # reading `batches` waits for a GPU
            y = wide * (square + self._eps).rsqrt()
        else:
            y = _Scale.apply(wide, inverse, mask, self)  # type: ignore[no-untyped-call]
        with torch.no_grad():
            self.running_square.lerp_(square.to(self.running_square.dtype), 1 - self.alpha)
            self.batches += 1
        return self.affine(y, x)

    def mean(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return each feature's mean (H,) over the rows where mask (B, ..., 1) is true, or 0."""
        total = over_processes((x * mask).sum(tuple(range(x.dim() - 1))), self.synchronized)
        return total / over_processes(mask.sum(), self.synchronized).clamp(min=1)


class _Scale(torch.autograd.Function):
    """x/psi with the gradient of algorithm 2; a second derivative treats nu as a constant."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, inverse: Tensor, mask: Tensor, norm: PowerNorm) -> Tensor:
        y = x * inverse
        ctx.save_for_backward(y, inverse, mask)
        ctx.norm = norm
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        y, inverse, mask = ctx.saved_tensors
        norm, nu = ctx.norm, ctx.norm.projection
        dx = (grad - nu.to(y.dtype, copy=True) * y) * inverse
        with torch.no_grad():
            share = 1 - norm.alpha
            square = norm.mean(y * y, mask).to(nu.dtype)
            product = norm.mean(grad * y, mask).to(nu.dtype)
            nu.mul_(1 - share * square).add_(share * product)
        return dx, None, None, None


class GroupNorm(Affine):
    """Return gain * (x - mean)/sqrt(variance + eps) + bias; statistics are over a group.

    Wu & He 2018, equation 2. Statistics are those of one example over its positions, or of each
    position alone if `over_positions` is false. Raises ValueError unless `groups` divides H.
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
        super().__init__(
            dim,
            gain=gain,
            bias=bias,
            eps=eps,
        )
        if groups < 1 or groups != int(groups) or dim % groups:
            raise ValueError(
                f"groups={groups}: must be a whole number that divides the {dim} features"
            )
        self.groups, self.depends_on_positions = int(groups), over_positions

    def forward(self, x: Tensor, rows: Tensor | None = None) -> Tensor:
        """Return z (B, ..., H); `rows` (B, ...) is true at the rows that count."""
        wide = upcast(x)
        if not self.depends_on_positions:
            y = self._by_torch(wide.reshape(-1, self.dim)).view(x.shape)
        elif rows is None:
            last = (
                x.dim() - 1
            )  # not -1: the legacy ONNX exporter then reads a size from outside the shape
            # Contiguous, because torch's kernel for images with their features last subtracts the
            # squared mean from the mean square, which loses the digits of rows with a large mean.
            y = self._by_torch(wide.movedim(last, 1).contiguous()).movedim(1, last).contiguous()
        else:
            y = self._masked(wide, rows)
        return self.affine(y, x)

    def _by_torch(self, x: Tensor) -> Tensor:
        """Return y (B, H, positions ...) of x in the same shape."""
        return (
            torch.group_norm(
                x,
                self.groups,
                eps=self._eps,
            )
            if x.numel()
            else x
        )

    def _masked(self, x: Tensor, rows: Tensor) -> Tensor:
        """Return y (B, positions ..., H) with statistics over the rows that count."""
        grouped = x.reshape(
            *x.shape[:-1],
            self.groups,
            -1,
        )
        mask = rows.unsqueeze(-1).expand(grouped.shape[:-1])  # (B, ..., groups)
        last = x.dim()
        positions = range(1, last - 1)
        mean, variance, _ = masked_moments(
            grouped,
            (*positions, last),
            mask,
        )
        y = (grouped - mean) * (variance + self._eps).rsqrt()
        return y.flatten(-2)


class InstanceNorm(GroupNorm):
    """Return (x - mean)/sqrt(variance + eps); statistics are over an example's positions.

    Ulyanov et al. 2016; `gain` and `bias` add one each. Raises ValueError for x (B, H), without
    positions.
    """

    needs_positions = True

    def __init__(
        self, dim: int, *, eps: float = 1e-5, gain: bool = False, bias: bool = False
    ) -> None:
        super().__init__(
            dim,
            groups=dim,
            eps=eps,
            gain=gain,
            bias=bias,
        )


def synchronize(model: nn.Module) -> None:
    """Let every norm over the batch take its statistics over all processes of a run.

    Raises ValueError for one that cannot: on its share of a batch it would be another norm.
    """
    for name, module in model.named_modules():
        if not getattr(module, "depends_on_batch", False):
            continue
        if getattr(module, "synchronized", None) is None:
            raise ValueError(
                f"{name}: {type(module).__name__} is over the batch, and not over several"
                " processes' shares of it; train in one process"
            )
        module.synchronized = True
