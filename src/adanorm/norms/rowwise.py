"""Norms of a row from other papers, and bounded functions that replace a norm."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adanorm.norms.base import Affine, Norm, check_choice, check_positive, upcast


class RmsNorm(Affine):
    """Return gain * x/sqrt(mean(x^2) + eps) (Zhang & Sennrich 2019, equation 4).

    `eps_at` root adds eps to the mean square, as most code does; outside adds it to the root, as
    the authors' code does. With `zero_centered` the gain is 1 + g, and g is learned from 0, as in
    Gemma and Qwen3-Next: weight decay then pulls the gain to 1. Raises ValueError for another
    `eps_at`.
    """

    def __init__(
        self,
        dim: int,
        *,
        eps: float = 1e-5,
        eps_at: str = "root",
        gain: bool = True,
        zero_centered: bool = False,
    ) -> None:
        super().__init__(
            dim,
            gain=gain,
            bias=False,
            zero_centered=zero_centered,
            eps=eps,
        )
        check_choice("eps_at", eps_at, "root", "outside")
        self.eps_at, self.part_size = eps_at, dim

    def forward(self, x: Tensor) -> Tensor:
        """Return z (..., H)."""
        wide = upcast(x)
        if self.eps_at == "root" and self.part_size == self.dim:
            gain = self.learned_gain
            # torch's kernel sums in float32 itself; copies there and back take thrice its time.
            source = x if gain is None or gain.dtype == x.dtype else wide
            z = F.rms_norm(
                source,
                (self.dim,),
                gain,
                self._eps,
            )
            return z.to(self.type_with(x))
        part = wide[..., : self.part_size]
        if self.eps_at == "root":
            mean_square = part.square().mean(-1, keepdim=True)
            size = (mean_square + self._eps).sqrt()
        else:  # vector_norm has gradient 0 at 0, where a root's is not finite
            length = torch.linalg.vector_norm(
                part,
                dim=-1,
                keepdim=True,
            )
            size = length / math.sqrt(self.part_size) + self._eps
        return self.affine(wide / size, x)


class PartialRmsNorm(RmsNorm):
    """Return RMSNorm's z with the mean square of the first p * H features alone, rounded up.

    Zhang & Sennrich 2019, section 4.1, who find 6.25 % enough. Raises ValueError unless 0 < p <= 1.
    """

    def __init__(
        self,
        dim: int,
        *,
        p: float = 0.0625,
        eps: float = 1e-5,
        eps_at: str = "root",
        gain: bool = True,
    ) -> None:
        super().__init__(
            dim,
            eps=eps,
            eps_at=eps_at,
            gain=gain,
        )
        if not 0 < p <= 1:
            raise ValueError(f"p={p}: must be above 0 and at most 1")
        self.part_size = math.ceil(p * dim)


class SimpleRmsNorm(RmsNorm):
    """Return x/sqrt(mean(x^2) + eps): RMSNorm without a gain, x-transformers' SimpleRMSNorm.

    With `size` length it is x/max(||x||, eps) instead: rows of length 1 by L2 normalization, like
    nGPT's (Loshchilov et al. 2024). Raises ValueError for another size.
    """

    def __init__(self, dim: int, *, size: str = "rms", eps: float = 1e-5) -> None:
        super().__init__(
            dim,
            eps=eps,
            gain=False,
        )
        check_choice("size", size, "rms", "length")
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        """Return z (..., H)."""
        if self.size == "rms":
            return super().forward(x)
        return F.normalize(
            upcast(x),
            dim=-1,
            eps=self._eps,
        ).to(x.dtype)


class PreAffineRmsNorm(RmsNorm):
    """Return gain * u/sqrt(mean(u^2) + eps) with u = scale * x.

    Scale and gain (H,) are learned from 1. Qiu et al. 2026, arXiv 2601.22966: what outliers among
    the features do can be learned in the scale.
    """

    def __init__(self, dim: int, *, eps: float = 1e-5) -> None:
        super().__init__(dim, eps=eps)
        self.scale = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        """Return z (..., H)."""
        return super().forward(x * self.scale)


class ScaleNorm(Affine):
    """Return g * x/max(||x||, eps) with one gain g for all features, learned from sqrt(H).

    Nguyen & Salazar 2019, equation 5.
    """

    def __init__(self, dim: int, *, eps: float = 1e-5) -> None:
        super().__init__(
            dim,
            gain=False,
            bias=False,
            eps=eps,
        )
        self.gain = nn.Parameter(torch.tensor(math.sqrt(dim)))

    def forward(self, x: Tensor) -> Tensor:
        """Return z (..., H)."""
        return (
            self.gain
            * F.normalize(
                upcast(x),
                dim=-1,
                eps=self._eps,
            )
        ).to(x.dtype)


class SeeDNorm(Affine):
    """Return (tanh(x . beta) * alpha + gain) * x/sqrt(mean(x^2) + eps).

    Cai et al. 2025, arXiv 2510.22777.
    alpha, beta and gain (H,) are learned from 1, 0 and 1, like the authors' in language models;
    with beta = 0 it is RMSNorm. `alpha` is alpha's first value; eps is assumed. There is one dot
    product, without the heads and the dropout that the authors have for images. Raises ValueError
    unless alpha is above 0.
    """

    def __init__(self, dim: int, *, alpha: float = 1.0, eps: float = 1e-5) -> None:
        super().__init__(
            dim,
            bias=False,
            eps=eps,
        )
        check_positive(alpha=alpha)
        self.alpha = nn.Parameter(
            torch.full(
                (dim,),
                float(alpha),
            )
        )
        self.beta = nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor) -> Tensor:
        """Return z (..., H)."""
        wide = upcast(x)
        # A sum of products, because autocast would round a matrix product.
        scale = torch.tanh((wide * self.beta).sum(-1, keepdim=True)) * self.alpha + self.weight
        return (
            scale
            * F.rms_norm(
                wide,
                (self.dim,),
                eps=self._eps,
            )
        ).to(self.type_with(x))


class GatedNorm(RmsNorm):
    """Return c * y * sigmoid(up silu(down y)) with y = RMSNorm(x), down (rank, H) and up (H, rank).

    Qiu et al. 2026, arXiv 2601.22966: a gate of low rank, 16, takes over the role of outlier
    features. c is `scale`: 1, or 2 as in a port, which starts near RMSNorm. down and up are drawn
    from a normal distribution of deviation .02, as in language models (assumed). Raises ValueError
    unless rank is a whole number above 0 and scale is above 0.
    """

    def __init__(self, dim: int, *, rank: int = 16, scale: float = 1.0, eps: float = 1e-5) -> None:
        super().__init__(dim, eps=eps)
        if rank != int(rank) or rank < 1:
            raise ValueError(f"rank={rank}: must be a whole number above 0")
        check_positive(scale=scale)
        self.scale = scale
        self.down, self.up = _draw_weights((int(rank), dim), (dim, int(rank)))

    def forward(self, x: Tensor) -> Tensor:
        """Return z (..., H)."""
        y = super().forward(x)
        gate = torch.sigmoid(F.linear(F.silu(F.linear(y, self.down)), self.up))
        return (y if self.scale == 1 else self.scale * y) * gate


def _draw_weights(*shapes: tuple[int, int]) -> list[nn.Parameter]:
    """Return weights of deviation .02 that follow from torch's seed, but leave its generator.

    A model's other layers then start with the same weights under every norm. The weights are drawn
    on the CPU and lie on the default device.
    """
    with torch.random.fork_rng(devices=[]):
        random = torch.Generator("cpu").manual_seed(
            int(
                torch.randint(
                    1 << 62,
                    (),
                    device="cpu",
                )
            )
        )
    normals = [
        torch.randn(
            shape,
            generator=random,
            device="cpu",
        )
        for shape in shapes
    ]
    return [nn.Parameter(torch.empty(normal.shape).copy_(0.02 * normal)) for normal in normals]


# From the code of Chen et al. 2025; each is odd, rising and between -1 and 1.
FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "erf": torch.erf,
    "arctan": lambda u: torch.atan(u) * (2 / math.pi),
    "isru": lambda u: u * (u.square() + 1).rsqrt(),
    "expsign": lambda u: -u.sign() * torch.expm1(-u.abs()),
}


class Pointwise(Affine):
    """Return gain * f(a x + s) + bias with one learned a, one learned s, and gain and bias (H,).

    f is a `function` of arXiv 2512.10938 (Chen et al. 2025): tanh, erf, arctan (times 2/pi), isru
    (u/sqrt(u^2 + 1)) or expsign (sign(u) (1 - exp(-|u|))). a starts at `alpha` (the authors take
    0.5), s at 0. Without `shift` there is no s. Raises ValueError for another function or an alpha
    not above 0.
    """

    def __init__(
        self, dim: int, *, function: str = "arctan", alpha: float = 0.5, shift: bool = True
    ) -> None:
        super().__init__(dim)
        check_choice("function", function, *FUNCTIONS)
        check_positive(alpha=alpha)
        self.alpha = nn.Parameter(torch.tensor(float(alpha)))
        self.shift = nn.Parameter(torch.tensor(0.0)) if shift else None
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        """Return z (..., H)."""
        u = self.alpha * upcast(x)
        y = FUNCTIONS[self.function](u if self.shift is None else u + self.shift)
        return self.affine(y, x).to(x.dtype)


class DynamicTanh(Pointwise):
    """Return gain * tanh(a x) + bias with one learned a: no statistics (DyT, Zhu et al. 2025).

    a starts at `alpha`; 0.5 is the authors' value outside large language models. Raises ValueError
    unless it is above 0.
    """

    def __init__(self, dim: int, *, alpha: float = 0.5) -> None:
        super().__init__(
            dim,
            function="tanh",
            alpha=alpha,
            shift=False,
        )


class Derf(Pointwise):
    """Return gain * erf(a x + s) + bias with one learned a and s (Chen et al. 2025).

    arXiv 2512.10938: a starts at `alpha`, s at 0. Raises ValueError unless alpha is above 0.
    """

    def __init__(self, dim: int, *, alpha: float = 0.5) -> None:
        super().__init__(
            dim,
            function="erf",
            alpha=alpha,
        )


class WeightNorm(nn.Identity, Norm):
    """Return x; the norm is in the layer before: the weights of a unit have a learned length g.

    Salimans & Kingma 2016, equation 2: w = g v/||v||. g and v are learned, and w starts as it was
    drawn.
    """

    lives_in_layer = True

    def __init__(self, dim: int) -> None:
        super().__init__()

    def attach(self, layer: nn.Module) -> None:
        """Reparametrize the weights of the layer whose output reaches this norm, row by row."""
        nn.utils.parametrizations.weight_norm(layer, dim=0)
