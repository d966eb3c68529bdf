"""What a large mean costs each norm, in every layout that it takes: no more than its rounding."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from adanorm.norms import NORMS, NormChoice, norm_factory

H = 48
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "rows": lambda x: x.reshape(-1, H),
    "examples": lambda x: x.flatten(1, 2),
    "time first": lambda x: x.flatten(1, 2).transpose(0, 1).contiguous().transpose(0, 1),
    "images": lambda x: x,
    "channels first in memory": lambda x: x.movedim(-1, 1).contiguous().movedim(1, -1),
    "every other feature": lambda x: x.repeat_interleave(2, -1)[..., ::2],
}
EPS = torch.finfo(torch.float32).eps


def value_and_gradient(norm: Any, x: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
    x = x.detach().requires_grad_()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # a noisy norm draws the same noise
        z = norm(x)
    (gradient,) = torch.autograd.grad((z * direction).sum(), x)
    return z.detach(), gradient


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", NORMS)
def test_a_large_mean_costs_no_more_than_its_rounding(name: str, layout: str) -> None:
    norm = norm_factory(NormChoice(name))(H, site="a")
    if norm.needs_positions and layout == "rows":
        pytest.skip("its statistics are over positions")
    random = torch.Generator().manual_seed(0)
    noise, direction = (
        torch.randn(
            4,
            7,
            6,
            H,
            generator=random,
        )
        for _ in range(2)
    )
    for mean in (1, 10, 100, 1_000, 10_000):
        x = LAYOUTS[layout](noise + mean)
        dz = direction.view(x.shape)
        ours = value_and_gradient(copy.deepcopy(norm), x, dz)
        exact = value_and_gradient(copy.deepcopy(norm).double(), x.double(), dz.double())
        # x - mean is off by the rounding of the mean: eps * mean, where the deviation is 1. The rows
        # of BatchNorm and the like are sums of up to 168 terms.
        for part, expected in zip(ours, exact, strict=True):
            allowed = 16 * EPS * (1 + mean) * (1 + expected.abs().max())
            assert (part.double() - expected).abs().max() <= allowed, mean


RMS_NORMS = [name for name in NORMS if "rmsnorm" in name]


@pytest.mark.parametrize("name", [*RMS_NORMS, "scalenorm", "seednorm", "gatednorm"])
def test_a_row_whose_square_overflows_is_zero_as_in_torchs_rmsnorm(name: str) -> None:
    x = torch.full((2, 4, H), 1e20)
    assert not torch.nn.functional.rms_norm(x, [H]).any()
    assert not norm_factory(NormChoice(name))(H, site="a").eval()(x).any()


@pytest.mark.parametrize("size", [2e19, 1e25, 1e37])
@pytest.mark.parametrize("name", ["batchnorm", "powernorm"])
def test_a_batch_whose_squares_overflow_is_zero_as_in_torchs_batchnorm(
    name: str, size: float
) -> None:
    x = size * torch.randn(8, 4, H, generator=torch.Generator().manual_seed(0))
    assert not torch.nn.BatchNorm1d(H)(x.flatten(0, 1)).any()
    assert not norm_factory(NormChoice(name))(H, site="a")(x).any()


@pytest.mark.parametrize("name", ["rmsnorm", "seednorm", "gatednorm", "powernorm"])
@pytest.mark.parametrize(("size", "least", "most"), [(1e12, 0, 1e-6), (1e16, 0.04, 1)])
def test_gradients_of_rms_norms_lose_digits_where_torchs_do(
    size: float, least: float, most: float, name: str
) -> None:
    x, direction = torch.randn(2, 20, H, generator=torch.Generator().manual_seed(0))
    for norm in (norm_factory(NormChoice(name))(H, site="a"), torch.nn.RMSNorm(H)):
        _, gradient = value_and_gradient(norm, size * x, direction)
        _, exact = value_and_gradient(norm.double(), size * x.double(), direction.double())
        error = (gradient - exact).abs().max() / exact.abs().max()
        assert least <= error <= most
