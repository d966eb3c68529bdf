"""The paper's norms as modules: (..., H) to (..., H), and none but LayerNorm has parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adanorm.norms.backends import Backend
from adanorm.norms.base import Norm, check_choice, check_positive, gain_less_one, upcast
from adanorm.norms.closed_form import Member, Numerics, closed_form, definition


class NoNorm(nn.Identity, Norm):
    """Return x itself: the paper's "w/o Norm"."""

    row_function = "x itself"
    takes_axes = True

    def __init__(self, dim: int | Sequence[int]) -> None:
        super().__init__()


class LayerNorm(nn.LayerNorm, Norm):
    """Return g * y + b with y standardized over H and gain g, bias b (H,): torch's own.

    Xu et al. 2019, equation 1; Ba et al. 2016. The same under either numerics: the released code
    uses torch's too. `dim` may be the sizes of several last axes, such as (C, H, W) of images; gain
    and bias can each be left out. With `zero_centered` the gain is 1 + g, and g is learned from 0.
    """

    takes_axes = True

    def __init__(
        self,
        dim: int | Sequence[int],
        *,
        eps: float = 1e-5,
        gain: bool = True,
        bias: bool = True,
        zero_centered: bool = False,
    ) -> None:
        check_positive(eps=eps)
        super().__init__(dim if isinstance(dim, int) else list(dim), eps=eps, bias=bias)
        self.gain_less_one = gain_less_one(*self.normalized_shape, gain=gain) if zero_centered else None
        if not gain or zero_centered:
            self.register_parameter("weight", None)
        if zero_centered:
            self.eps, self._own_eps = Norm.eps, eps  # torch's fast path knows of no such gain

    def forward(self, x: Tensor) -> Tensor:
        """Return z, in the shape of x."""
        if self.gain_less_one is None:
            return super().forward(x)
        # In float32: 1 + g of half precision would be 1 for small g.
        gain, bias = 1 + upcast(self.gain_less_one), None if self.bias is None else upcast(self.bias)
        z = F.layer_norm(upcast(x), self.normalized_shape, gain, bias, self._own_eps)
        return z.to(torch.promote_types(x.dtype, self.gain_less_one.dtype))


class ClosedFormNorm(Norm):
    """One member of the family: see closed_form for what tells members apart, and for the backends.

    `dim` may be the sizes of several last axes, as torch's `normalized_shape`: they are one row.
    """

    has_kernels = True
    takes_axes = True

    # The statistics that carry no gradient: what tells members without a factor apart.
    detach_mean: bool = False
    detach_variance: bool = False

    def __init__(
        self,
        dim: int | Sequence[int],
        *,
        eps: float = 1e-5,
        numerics: Numerics = "paper",
        backend: Backend = "auto",
    ) -> None:
        super().__init__()
        check_positive(eps=eps)
        check_choice("backend", backend, *get_args(Backend))
        check_choice("numerics", numerics, *get_args(Numerics))
        self.normalized_shape = (dim,) if isinstance(dim, int) else tuple(dim)
        features = math.prod(self.normalized_shape)
        if numerics == "released" and features < 2:
            raise ValueError(f"released numerics divide by H - 1: H={features} is too small")
        self.backend = backend
        self._set(Member(0.0, 1.0, self.detach_mean, self.detach_variance, eps, numerics))

    def _set(self, member: Member) -> None:
        self.member = member
        if len(self.normalized_shape) == 1:
            self.row_function = (type(self), member, self.backend)

    def forward(self, x: Tensor) -> Tensor:
        """Return C * (1 - k*y) * y with y standardized over H; x and the result are (..., H)."""
        return self._by_row(x, self._rows)

    def reference(self, x: Tensor) -> Tensor:
        """Return what forward does, by the definition: (..., H)."""
        return self._by_row(x, self._reference_rows)

    def _rows(self, rows: Tensor) -> Tensor:
        return closed_form(rows, self.member, backend=self.backend)

    def _reference_rows(self, rows: Tensor) -> Tensor:
        return definition(rows, self.member)

    def _by_row(self, x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        """Return a function of rows (..., H) of x, whose last axes they are. Raises ValueError for others."""
        shape = self.normalized_shape
        last = x.shape[-len(shape) :]
        if last != shape:
            have = f"axis has {x.shape[-1]}" if len(shape) == 1 else f"axes have {tuple(last)}"
            raise ValueError(f"{type(self).__name__}({self._sizes}): the last {have} features")
        if len(shape) == 1:
            return function(x)
        return function(x.flatten(-len(shape))).reshape(x.shape)

    def extra_repr(self) -> str:
        """Return the settings as they show in a printed model."""
        settings = {**self.member._asdict(), "backend": self.backend}
        return ", ".join([self._sizes, *(f"{key}={value}" for key, value in settings.items())])

    @property
    def _sizes(self) -> str:
        return ", ".join(map(str, self.normalized_shape))


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


class AdaNorm(ClosedFormNorm):
    """Return C * (1 - k*y) * y with y standardized over H (paper, section 4).

    The factor carries no gradient; mean and variance keep theirs. k = 1/10 keeps the factor
    positive for at least 99 % of the features (Chebyshev). What public ports got wrong can be had to
    be measured: with `phi_gradient` the factor carries its gradient, with `learn_C` C is learned.
    Raises ValueError unless 0 <= k < 1 and C > 0.
    """

    def __init__(
        self,
        dim: int | Sequence[int],
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
        super().__init__(dim, eps=eps, numerics=numerics, backend=backend)
        self._set(self.member._replace(k=k, C=C))
        self.phi_gradient = phi_gradient
        if phi_gradient:
            self.row_function = None  # that of the plain one has another gradient
        self.C = nn.Parameter(torch.tensor(float(C))) if learn_C else None

    def _rows(self, rows: Tensor) -> Tensor:
        if not self.phi_gradient and self.C is None:
            return super()._rows(rows)
        return self._scaled(closed_form(rows, self._standardized, backend=self.backend)).to(rows.dtype)

    def _reference_rows(self, rows: Tensor) -> Tensor:
        return self._scaled(definition(rows, self._standardized))

    @property
    def _standardized(self) -> Member:
        """The member whose z is y."""
        return self.member._replace(k=0.0, C=1.0)

    def _scaled(self, y: Tensor) -> Tensor:
        """Return C * (1 - k*y) * y, (..., H), the factor with its gradient if asked for."""
        factor = 1 - self.member.k * (y if self.phi_gradient else y.detach())
        return (self.member.C if self.C is None else self.C) * factor * y
