"""The paper's norms as modules, from (..., H) to (..., H).

Of the paper's norms only LayerNorm has parameters. TopK and GradNorm are in the released code
alone. GradOnly and its variants are the converse of the paper's experiment: they have a norm's
gradient but return x itself.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adanorm.norms.base import (
    GainAndBias,
    Norm,
    check_choice,
    check_positive,
    gain_less_one,
    upcast,
)
from adanorm.norms.closed_form import Backend, Member, Numerics, closed_form, definition

Dim = int | Sequence[int]  # features, or the sizes of several last axes


class NoNorm(nn.Identity, Norm):
    """Return x itself: the paper's "w/o Norm"."""

    row_function = "x itself"
    takes_axes = True

    def __init__(self, dim: Dim) -> None:
        super().__init__()


class LayerNorm(nn.LayerNorm, GainAndBias):
    """Return g * y + b with y standardized over H, gain g (H,) and bias b (H,): torch's LayerNorm.

    Xu et al. 2019, equation 1; Ba et al. 2016. With `released` numerics it divides as the other
    norms of the authors' code do; a well-known tutorial writes LayerNorm that way. `dim` may be the
    sizes of several last axes, such as (C, H, W) of images; gain and bias can each be left out.
    With `zero_centered` the gain is 1 + g, and g is learned from 0.
    """

    takes_axes = True

    def __init__(
        self,
        dim: Dim,
        *,
        eps: float = 1e-5,
        gain: bool = True,
        bias: bool = True,
        zero_centered: bool = False,
        numerics: Numerics = "paper",
    ) -> None:
        check_positive(eps=eps)
        super().__init__(
            dim if isinstance(dim, int) else list(dim),
            eps=eps,
            bias=bias,
        )
        self.member = _checked_member(Member(eps=eps, numerics=numerics), self.normalized_shape)
        self.gain_less_one = (
            gain_less_one(*self.normalized_shape, gain=gain) if zero_centered else None
        )
        if not gain or zero_centered:
            self.register_parameter("weight", None)
        self._is_torchs = not zero_centered and numerics == "paper"
        if not self._is_torchs:
            self.eps = Norm.eps  # keeps torch's fast path away, which computes another norm

    def forward(self, x: Tensor) -> Tensor:
        """Return z, with the shape of x."""
        if self._is_torchs:
            return super().forward(x)
        if self.member.numerics == "released":
            return self.affine(
                _by_row(
                    self,
                    upcast(x),
                    lambda rows: definition(rows, self.member),
                ),
                x,
            )
        bias = None if self.bias is None else upcast(self.bias)
        z = F.layer_norm(
            upcast(x),
            self.normalized_shape,
            self.learned_gain,
            bias,
            self.member.eps,
        )
        return z.to(self.type_with(x))


class TopK(nn.LayerNorm, Norm):
    """Return LayerNorm's z of x with each row's extremes clipped: `topk` of the released code.

    The k largest features of a row become the k-th largest, the k smallest become the k-th
    smallest; k = max(int(sigma * H), 1), and k = 1 clips nothing. The released code clips x in
    place and so changes the residual stream; this does not. Raises ValueError unless 0 < sigma <=
    0.5: the two would overlap.
    """

    def __init__(self, dim: int, *, sigma: float = 0.005, eps: float = 1e-5) -> None:
        check_positive(eps=eps)
        if not 0 < sigma <= 0.5:
            raise ValueError(f"sigma={sigma}: must be above 0 and at most 0.5")
        super().__init__(dim, eps=eps)
        self.k = max(int(sigma * dim), 1)
        self.eps, self._eps = (
            Norm.eps,
            eps,
        )  # keeps torch's fast path away, which computes another norm

    def forward(self, x: Tensor) -> Tensor:
        """Return z (..., H)."""
        return _by_row(self, x, self._clip_and_normalize)

    def _clip_and_normalize(self, x: Tensor) -> Tensor:
        high = x.topk(self.k).values[..., -1:]
        low = x.topk(self.k, largest=False).values[..., -1:]
        raised = torch.where(x < low, low, x)  # equal extremes keep gradients, unlike in a clamp
        clipped = torch.where(x > high, high, raised)
        return F.layer_norm(
            clipped,
            self.normalized_shape,
            self.weight,
            self.bias,
            self._eps,
        )


class ClosedFormNorm(Norm):
    """A member of the family; closed_form says what tells members apart.

    `dim` may be the sizes of several last axes, like torch's `normalized_shape`: they are one row.
    """

    has_kernels = True
    takes_axes = True

    # The statistics that carry no gradient: members without a factor differ in nothing else.
    detach_mean: bool = False
    detach_variance: bool = False

    def __init__(
        self,
        dim: Dim,
        *,
        eps: float = 1e-5,
        numerics: Numerics = "paper",
        backend: Backend = "auto",
    ) -> None:
        super().__init__()
        check_positive(eps=eps)
        check_choice("backend", backend, *get_args(Backend))
        self.normalized_shape = (dim,) if isinstance(dim, int) else tuple(dim)
        self.backend = backend
        member = Member(
            0.0,
            1.0,
            self.detach_mean,
            self.detach_variance,
            eps,
            numerics,
        )
        self._set(_checked_member(member, self.normalized_shape))

    def _set(self, member: Member) -> None:
        self.member = self.computed = member
        if len(self.normalized_shape) == 1:
            self.row_function = (type(self), member, self.backend)

    def forward(self, x: Tensor) -> Tensor:
        """Return C * (1 - k*y) * y with y standardized over H; x and the result are (..., H)."""
        return _by_row(
            self,
            x,
            lambda x: self._output(
                x,
                closed_form(
                    x,
                    self.computed,
                    self.backend,
                ),
            ),
        )

    def reference(self, x: Tensor) -> Tensor:
        """Return forward's z (..., H) by the definition."""
        return _by_row(
            self,
            x,
            lambda x: self._output(x, definition(x, self.computed)),
        )

    def _output(self, x: Tensor, y: Tensor) -> Tensor:
        """Return z from rows x and the computed member's result y for them."""
        return y

    def extra_repr(self) -> str:
        """Return the settings as a printed model shows them."""
        settings = {**self.member._asdict(), "backend": self.backend}
        return ", ".join([_sizes(self), *(f"{key}={value}" for key, value in settings.items())])


def _checked_member(member: Member, shape: Sequence[int]) -> Member:
    """Return the member; raises ValueError for numerics that rows of this shape cannot have."""
    check_choice("numerics", member.numerics, *get_args(Numerics))
    if member.numerics == "released" and math.prod(shape) < 2:
        raise ValueError(f"released numerics divide by H - 1: H={math.prod(shape)} is too small")
    return member


def _by_row(norm: Any, x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """Return function(rows) in x's shape; several axes are one row.

    Raises ValueError if the last axes of x are others than the norm's.
    """
    shape: tuple[int, ...] = norm.normalized_shape
    last = x.shape[-len(shape) :]
    if last != shape:
        problem = (
            f"axis has {last[0]}" if len(shape) == len(last) == 1 else f"axes have {tuple(last)}"
        )
        raise ValueError(f"{type(norm).__name__}({_sizes(norm)}): the last {problem} features")
    if len(shape) == 1:
        return function(x)
    return function(x.flatten(-len(shape))).reshape(x.shape)


def _sizes(norm: Any) -> str:
    return ", ".join(map(str, norm.normalized_shape))


class LayerNormSimple(ClosedFormNorm):
    """Return y, x standardized over H: LayerNorm without gain and bias (paper, section 3.1)."""


class DetachNorm(ClosedFormNorm):
    """Return y with the gradients of mean and variance stopped (paper, section 3.2)."""

    detach_mean = True
    detach_variance = True


class DetachMean(ClosedFormNorm):
    """Return y with the gradient of the mean stopped (paper, table 3)."""

    detach_mean = True


class DetachVariance(ClosedFormNorm):
    """Return y with the gradient of the variance stopped (paper, table 3)."""

    detach_variance = True


class GradNorm(ClosedFormNorm):
    """Return x + y with the gradient of y alone: `gradnorm` of the released code.

    The value keeps the whole of x, and the gradient is LayerNorm's: the converse of DetachNorm.
    """

    def _output(self, x: Tensor, y: Tensor) -> Tensor:
        return x.detach() + y


class GradOnly(ClosedFormNorm):
    """Return x itself with the gradient of y: dl/dx = (1/std) * (g - mean(g) - y * mean(g * y))."""

    def _output(self, x: Tensor, y: Tensor) -> Tensor:
        return x.detach() + (y - y.detach())


class GradMean(GradOnly):
    """Return x itself with dl/dx = (1/std) * (g - mean(g)): GradOnly without its variance term."""

    detach_variance = True


class GradVariance(GradOnly):
    """Return x itself with dl/dx = (1/std) * (g - y * mean(g * y)): GradOnly without the mean."""

    detach_mean = True


class GradScale(GradOnly):
    """Return x itself with dl/dx = (1/std) * g: the division alone, as DetachNorm's gradient."""

    detach_mean = True
    detach_variance = True


class AdaNorm(ClosedFormNorm):
    """Return C * (1 - k*y) * y with y standardized over H (paper, section 4).

    The factor carries no gradient; mean and variance keep theirs. k = 1/10 keeps the factor
    positive for at least 99 % of the features (Chebyshev). Two options repeat mistakes of public
    ports, to measure them: with `phi_gradient` the factor carries its gradient, with `learn_C` C is
    learned. Raises ValueError unless 0 <= k < 1 and C > 0.
    """

    def __init__(
        self,
        dim: Dim,
        *,
        k: float = 0.1,
        C: float = 1.0,
        phi_gradient: bool = False,
        learn_C: bool = False,
        eps: float = 1e-5,
        numerics: Numerics = "paper",
        backend: Backend = "auto",
    ) -> None:
        if not 0 <= k < 1:
            raise ValueError(f"k={k}: must be at least 0 and below 1")
        check_positive(C=C)
        super().__init__(
            dim,
            eps=eps,
            numerics=numerics,
            backend=backend,
        )
        self._set(self.member._replace(k=k, C=C))
        self.phi_gradient = phi_gradient
        self.C = nn.Parameter(torch.tensor(float(C))) if learn_C else None
        if phi_gradient or learn_C:
            # Its z is y; `_output` applies the factor.
            self.computed = self.member._replace(k=0.0, C=1.0)
            self.row_function = None

    def _output(self, x: Tensor, y: Tensor) -> Tensor:
        """Return y if the computed member applied the factor, else factor * y by the options."""
        if not self.phi_gradient and self.C is None:
            return y
        factor = 1 - self.member.k * (y if self.phi_gradient else y.detach())
        scale = self.member.C if self.C is None else self.C
        return (scale * factor * y).to(x.dtype)
