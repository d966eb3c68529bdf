"""Other norms of a row than the paper's, and bounded functions in a norm's place: (..., H) to (..., H)."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adanorm.norms.base import Affine, Norm, check_choice, check_positive, upcast


class RmsNorm(Affine):
    """Return gain * x/sqrt(mean(x^2) + eps) (Zhang & Sennrich 2019, equation 4).

    `eps_at` root adds eps to the mean square, as most code does; outside adds it to the root, as
    theirs. With `zero_centered` the gain is 1 + g, and g is learned from 0, as in Gemma and Qwen3-Next:
    weight decay then draws it to 1. Raises ValueError for any other choice.
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
        super().__init__(dim, gain=gain, bias=False, zero_centered=zero_centered, eps=eps)
        check_choice("eps_at", eps_at, "root", "outside")
        self.eps_at, self.counted = eps_at, dim

    def forward(self, x: Tensor) -> Tensor:
        """Return z (..., H)."""
        wide = upcast(x)
        if self.eps_at == "root" and self.counted == self.dim:
            return F.rms_norm(wide, (self.dim,), self.learned_gain, self._eps).to(self.type_with(x))
        return self.affine(wide / self._size(wide), x)

    def _size(self, x: Tensor) -> Tensor:
        """Return the root mean square (..., 1) of the features that count, with eps where it belongs."""
        counted = x[..., : self.counted]
        if self.eps_at == "root":
            return (counted.square().mean(-1, keepdim=True) + self._eps).sqrt()
        # A length's own gradient at 0 is 0; a root's would not be finite.
        length: Tensor = torch.linalg.vector_norm(counted, dim=-1, keepdim=True)
        return length / math.sqrt(self.counted) + self._eps


class PartialRmsNorm(RmsNorm):
    """Return RMSNorm's z with the mean square of the first p * H features alone (at least one).

    Zhang & Sennrich 2019, section 4.1; they find 6.25 % enough. Raises ValueError unless 0 < p <= 1.
    """

    def __init__(
        self, dim: int, *, p: float = 0.0625, eps: float = 1e-5, eps_at: str = "root", gain: bool = True
    ) -> None:
        super().__init__(dim, eps=eps, eps_at=eps_at, gain=gain)
        if not 0 < p <= 1:
            raise ValueError(f"p={p}: must be above 0 and at most 1")
        self.counted = math.ceil(p * dim)


class SimpleRmsNorm(RmsNorm):
    """Return x/sqrt(mean(x^2) + eps), without a gain: RMSNorm as x-transformers' SimpleRMSNorm has it.

    With `size` length, x/max(||x||, eps): rows of length 1, L2 normalization, as nGPT's (Loshchilov et
    al. 2024). Raises ValueError for another size.
    """

    def __init__(self, dim: int, *, size: str = "rms", eps: float = 1e-5) -> None:
        super().__init__(dim, eps=eps, gain=False)
        check_choice("size", size, "rms", "length")
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        """Return z (..., H)."""
        if self.size == "rms":
            return super().forward(x)
        return F.normalize(upcast(x), dim=-1, eps=self._eps).to(x.dtype)


class PreAffineRmsNorm(RmsNorm):
    """Return gain * u/sqrt(mean(u^2) + eps), u = scale * x, scale and gain (H,) learned from 1.

    Qiu et al. 2026, arXiv 2601.22966.
    """

    def __init__(self, dim: int, *, eps: float = 1e-5) -> None:
        super().__init__(dim, eps=eps)
        self.scale = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        """Return z (..., H)."""
        return super().forward(x * self.scale)


class ScaleNorm(Affine):
    """Return g * x/max(||x||, eps), one gain g, at first sqrt(H) (Nguyen & Salazar 2019, equation 5)."""

    def __init__(self, dim: int, *, eps: float = 1e-5) -> None:
        super().__init__(dim, gain=False, bias=False, eps=eps)
        self.gain = nn.Parameter(torch.tensor(math.sqrt(dim)))

    def forward(self, x: Tensor) -> Tensor:
        """Return z (..., H)."""
        return (self.gain * F.normalize(upcast(x), dim=-1, eps=self._eps)).to(x.dtype)


class SeeDNorm(Affine):
    """Return (tanh(x . beta) * alpha + gain) * x/sqrt(mean(x^2) + eps) (Cai et al. 2025, arXiv 2510.22777).

    alpha, beta and gain (H,) are learned, at first 1, 0 and 1, as theirs in language models: RMSNorm,
    until beta is learned. `alpha` is alpha's first value; eps is assumed. One dot product, without
    the heads and the dropout that theirs has for images. Raises ValueError unless alpha is above 0.
    """

    def __init__(self, dim: int, *, alpha: float = 1.0, eps: float = 1e-5) -> None:
        super().__init__(dim, gain=True, bias=False, eps=eps)
        check_positive(alpha=alpha)
        self.alpha, self.beta = nn.Parameter(torch.full((dim,), float(alpha))), nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor) -> Tensor:
        """Return z (..., H)."""
        wide = upcast(x)
        # A sum of products: autocast would round a product of matrices.
        scale = torch.tanh((wide * self.beta).sum(-1, keepdim=True)) * self.alpha + self.weight  # type: ignore[operator]
        return (scale * F.rms_norm(wide, (self.dim,), eps=self._eps)).to(self.type_with(x))


class GatedNorm(RmsNorm):
    """Return c * y * sigmoid(up silu(down y)) with y = RMSNorm(x), down (rank, H) and up (H, rank).

    Qiu et al. 2026, arXiv 2601.22966: a gate of low rank, 16, does what outliers among the features did.
    c is `scale`: 1, or 2 as a port has it, which is RMSNorm at first. down and up are drawn from a
    normal distribution of deviation .02, as in language models: assumed. Raises ValueError unless rank
    is a whole number above 0.
    """

    def __init__(self, dim: int, *, rank: int = 16, scale: float = 1.0, eps: float = 1e-5) -> None:
        super().__init__(dim, eps=eps)
        if rank != int(rank) or rank < 1:
            raise ValueError(f"rank={rank}: must be a whole number above 0")
        check_positive(scale=scale)
        self.scale = scale
        self.down, self.up = _drawn((int(rank), dim), (dim, int(rank)))

    def forward(self, x: Tensor) -> Tensor:
        """Return z (..., H)."""
        y = super().forward(x)
        gate = torch.sigmoid(F.linear(F.silu(F.linear(y, self.down)), self.up))
        return (y if self.scale == 1 else self.scale * y) * gate


def _drawn(*shapes: tuple[int, int]) -> list[nn.Parameter]:
    """Return weights of deviation .02 that follow from torch's seed and take none of its random numbers.

    A model's layers then start with the weights that they have under any other norm. On the default device,
    drawn on the CPU wherever that is.
    """
    with torch.random.fork_rng(devices=[]):
        random = torch.Generator("cpu").manual_seed(int(torch.randint(1 << 62, (), device="cpu")))
    drawn = [torch.randn(shape, generator=random, device="cpu") for shape in shapes]
    return [nn.Parameter(torch.empty(numbers.shape).copy_(0.02 * numbers)) for numbers in drawn]


# As in the code of Chen et al. 2025: odd, rising, and between -1 and 1.
FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "erf": torch.erf,
    "arctan": lambda u: torch.atan(u) * (2 / math.pi),
    "isru": lambda u: u * (u.square() + 1).rsqrt(),
    "expsign": lambda u: -u.sign() * torch.expm1(-u.abs()),
}


class Pointwise(Affine):
    """Return gain * f(a x + s) + bias with one learned a and one learned s, gain and bias (H,).

    f is a `function` of arXiv 2512.10938 (Chen et al. 2025): tanh, erf, arctan (times 2/pi), isru
    (u/sqrt(u^2 + 1)) or expsign (sign(u) (1 - exp(-|u|))). a starts at `alpha`, 0.5, and s at 0, as
    theirs; without `shift` there is no s. Raises ValueError for another function, and unless alpha is
    above 0.
    """

    def __init__(self, dim: int, *, function: str = "arctan", alpha: float = 0.5, shift: bool = True) -> None:
        super().__init__(dim, gain=True, bias=True)
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
    """Return gain * tanh(a x) + bias with one learned a: no statistics at all (DyT, Zhu et al. 2025).

    a starts at `alpha`, 0.5 as theirs outside large language models. Raises ValueError unless it is
    above 0.
    """

    def __init__(self, dim: int, *, alpha: float = 0.5) -> None:
        super().__init__(dim, function="tanh", alpha=alpha, shift=False)


class Derf(Pointwise):
    """Return gain * erf(a x + s) + bias, a learned from `alpha` and s from 0 (Chen et al. 2025).

    arXiv 2512.10938. Raises ValueError unless alpha is above 0.
    """

    def __init__(self, dim: int, *, alpha: float = 0.5) -> None:
        super().__init__(dim, function="erf", alpha=alpha)


class WeightNorm(Norm):
    """Return x itself: the norm is in the weights of the layer before, v scaled to length g a unit.

    Salimans & Kingma 2016, equation 2: w = g v/||v||, g and v learned, at first as the layer was
    drawn.
    """

    lives_in_layer = True

    def __init__(self, dim: int) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        """Return x, (..., H)."""
        return x

    def attach(self, layer: nn.Module) -> None:
        """Reparametrize the weights of the layer whose output reaches this site, a unit a row."""
        nn.utils.parametrizations.weight_norm(layer, dim=0)
