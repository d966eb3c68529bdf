"""Bounded functions of single numbers in a norm's place, without statistics: (..., H) to (..., H)."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from adanorm.norms.base import Affine, upcast

# As in the code of Chen et al. 2025: odd, rising, and all but satursin's kin between -1 and 1.
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
        if function not in FUNCTIONS:
            raise ValueError(f"function={function!r}: choose {', '.join(FUNCTIONS)}")
        if not 0 < alpha < float("inf"):
            raise ValueError(f"alpha={alpha}: must be above 0 and finite")
        self.alpha = nn.Parameter(torch.tensor(float(alpha)))
        self.shift = nn.Parameter(torch.tensor(0.0)) if shift else None
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        """Return z (..., H)."""
        self.check_features(x)
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
    """Return gain * erf(a x + s) + bias with one learned a and one learned s (Chen et al. 2025).

    arXiv 2512.10938: a starts at `alpha`, 0.5, and s at 0. Raises ValueError unless alpha is above 0.
    """

    def __init__(self, dim: int, *, alpha: float = 0.5) -> None:
        super().__init__(dim, function="erf", alpha=alpha)
