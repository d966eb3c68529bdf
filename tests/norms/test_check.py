from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from adanorm.norms import NORMS, MakeNorm, Norm, NormChoice, norm_factory
from adanorm.norms import check as contract
from adanorm.norms.base import as_norm
from adanorm.norms.check import CHECKS
from adanorm.norms.registry import has_setting


@pytest.mark.parametrize("numerics", ["paper", "released"])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", NORMS)
def test_every_norm_keeps_the_contract(
    name: str, check: Callable[[MakeNorm], None], numerics: str
) -> None:
    if numerics == "paper" or has_setting(NORMS[name], "numerics"):
        check(norm_factory(NormChoice(name, numerics=numerics)))


class Broken(nn.Identity):
    """A norm that computes a function of rows."""

    function: Callable[[Tensor], Tensor]

    def forward(self, x: Tensor) -> Tensor:
        return type(self).function(x)


class Unused(Broken):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))


class Declared(Broken):
    def reference(self, x: Tensor) -> Tensor:
        return nn.functional.layer_norm(x, x.shape[-1:]) * (1 - 1e-4 * x)


def wrong_gradient(x: Tensor) -> Tensor:
    return nn.functional.layer_norm(x, x.shape[-1:]) * (1 - 1e-4 * x).detach()


def undeclared_stop(x: Tensor) -> Tensor:
    return x - x.mean(-1, keepdim=True).detach()


def test_running_statistics_do_not_fail_the_check_of_shapes() -> None:
    """Without warmup PowerNorm divides by the size of what it has seen in training."""
    contract.keeps_shape(norm_factory(NormChoice("powernorm", {"warmup": 0})))


@pytest.mark.parametrize(
    ("check", "base", "function"),
    [
        (contract.uses_its_parameters, Unused, lambda x: x),
        (contract.gradient_is_right, Declared, wrong_gradient),
        (contract.gradient_is_right, Broken, undeclared_stop),
        (contract.gradient_is_right, Broken, lambda x: (x, x)),  # finite differences take a tuple
        (contract.runs_under_autocast, Broken, lambda x: x + x.detach() / 0),
        (contract.rows_are_independent, Broken, lambda x: x - x.mean(0, keepdim=True)),
        (contract.constant_rows_are_finite, Broken, lambda x: x / x.std(-1, keepdim=True)),
        (
            contract.constant_rows_are_finite,
            Broken,
            lambda x: x / x.square().sum(-1, keepdim=True).sqrt(),
        ),
        (contract.keeps_shape, Broken, lambda x: x.squeeze(0)),
        (contract.keeps_dtype, Broken, lambda x: x.double()),
        (contract.keeps_dtype, Broken, lambda x: x + 0.01 if x.dtype == torch.float32 else x),
        (contract.keeps_dtype, Broken, lambda x: x + 0.5 if x.dtype == torch.bfloat16 else x),
    ],
)
def test_a_norm_that_breaks_the_contract_is_caught(
    check: Callable[[MakeNorm], None], base: type[Broken], function: Callable[[Tensor], Tensor]
) -> None:
    cls = type("Norm", (base,), {"function": staticmethod(function)})

    def make_norm(dim: int, *, site: str) -> Norm:
        return as_norm(cls)(dim)

    message = r"reference\(x\)" if function is undeclared_stop else None
    with pytest.raises((AssertionError, RuntimeError), match=message):
        check(make_norm)
