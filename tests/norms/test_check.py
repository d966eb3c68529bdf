from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from adanorm.norms import NORMS, MakeNorm, Norm, NormChoice, norm_factory
from adanorm.norms import check as contract
from adanorm.norms.base import as_norm
from adanorm.norms.check import CHECKS


@pytest.mark.parametrize("numerics", ["paper", "released"])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", NORMS)
def test_every_norm_keeps_the_contract(name: str, check: Callable[[MakeNorm], None], numerics: str) -> None:
    check(norm_factory(NormChoice(name, numerics=numerics)))


class Base(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim


class Unused(Base):
    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        return x


class WrongGradient(Base):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.layer_norm(x, [self.dim]) * (1 - 1e-4 * x).detach()

    def reference(self, x: Tensor) -> Tensor:
        return nn.functional.layer_norm(x, [self.dim]) * (1 - 1e-4 * x)


class UndeclaredStop(Base):
    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(-1, keepdim=True).detach()


class OverTheBatch(Base):
    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0, keepdim=True)


class NotFinite(Base):
    def forward(self, x: Tensor) -> Tensor:
        return x / x.std(-1, keepdim=True)


class NotFiniteAtZero(Base):
    def forward(self, x: Tensor) -> Tensor:
        return x / x.square().sum(-1, keepdim=True).sqrt()


class LosesAnAxis(Base):
    def forward(self, x: Tensor) -> Tensor:
        return x.squeeze(0)


class Widens(Base):
    def forward(self, x: Tensor) -> Tensor:
        return x.double()


class OffInFloat32(Base):
    def forward(self, x: Tensor) -> Tensor:
        return x + 0.01 if x.dtype == torch.float32 else x


class OffInBfloat16(Base):
    def forward(self, x: Tensor) -> Tensor:
        return x + 0.5 if x.dtype == torch.bfloat16 else x


@pytest.mark.parametrize(
    ("cls", "check"),
    [
        (Unused, contract.uses_its_parameters),
        (WrongGradient, contract.gradient_is_right),
        (UndeclaredStop, contract.gradient_is_right),
        (OverTheBatch, contract.rows_are_independent),
        (NotFinite, contract.constant_rows_are_finite),
        (NotFiniteAtZero, contract.constant_rows_are_finite),
        (LosesAnAxis, contract.keeps_shape),
        (Widens, contract.keeps_dtype),
        (OffInFloat32, contract.keeps_dtype),
        (OffInBfloat16, contract.keeps_dtype),
    ],
)
def test_a_norm_that_breaks_the_contract_is_caught(
    cls: type[Base], check: Callable[[MakeNorm], None]
) -> None:
    def make_norm(dim: int, *, site: str) -> Norm:
        return as_norm(cls)(dim)

    with pytest.raises(
        (AssertionError, RuntimeError), match=r"reference\(x\)" if cls is UndeclaredStop else None
    ):
        check(make_norm)
