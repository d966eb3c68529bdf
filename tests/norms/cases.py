"""Shared by the tests of kernels and definition: the family, inputs, and the definition in float64."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from adanorm.norms.closed_form import Member, definition

FAMILY = {
    "layernorm-simple": Member(),
    "detachnorm": Member(
        C=2.0,
        detach_mean=True,
        detach_variance=True,
    ),
    "detach-mean": Member(detach_mean=True),
    "detach-var": Member(C=2.0, detach_variance=True),
    "adanorm": Member(k=0.1, C=1.5),
    "adanorm, all detached": Member(
        k=0.1,
        C=1.5,
        detach_mean=True,
        detach_variance=True,
    ),
}
FAMILY |= {
    f"{name}, released": member._replace(numerics="released") for name, member in FAMILY.items()
}
LATER = [name for name in FAMILY if "released" in name and name != "adanorm, released"]
of_the_family = pytest.mark.parametrize("member", FAMILY.values(), ids=list(FAMILY))
# For slow tests: every member under the paper's numerics, and AdaNorm under the released ones.
of_the_paper = pytest.mark.parametrize(
    "member",
    [
        pytest.param(
            member,
            id=name,
            marks=pytest.mark.nightly if name in LATER else (),
        )
        for name, member in FAMILY.items()
    ],
)
# As a share of the largest value of a row, where x is about as large as its deviation: see
# closed_form.
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 2**-8, torch.float16: 2**-11}

Norm = Callable[[Tensor], Tensor]


def inputs(*shape: int, dtype: torch.dtype = torch.float32, offset: float = 0.5) -> Tensor:
    """Return rows of different spreads about an offset."""
    random = torch.Generator().manual_seed(sum(shape))
    spread = torch.rand(*shape[:-1], 1, generator=random) * 3 + 0.5
    return (spread * torch.randn(*shape, generator=random) + offset).to(dtype)


def fixed_weights(z: Tensor) -> Tensor:
    """Return weights of the shape and type of z: quarters, which every type holds exactly."""
    return ((7 * torch.arange(z.numel(), device=z.device) % 11 - 4.0) / 4).view(z.shape).to(z.dtype)


def value_and_gradient(norm: Norm, x: Tensor, dz: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return z and the gradient of its weighted sum, both like x; the weights are dz, or fixed ones."""
    leaf = x.detach().requires_grad_()
    z = norm(leaf)
    (gradient,) = torch.autograd.grad(z, leaf, fixed_weights(z) if dz is None else dz)
    return z.detach(), gradient


def assert_is_the_definition(parts: tuple[Tensor, Tensor], x: Tensor, member: Member) -> None:
    """Compare value and gradient with autograd through the definition in float64.

    The allowed error is a share of a row's largest value, multiplied by (1 + max |x|/std): the
    rounding of x - mean, which no float32 norm escapes, grows with it.
    """
    if x.numel() == 0:
        assert all(part.shape == x.shape for part in parts)
        return
    exact = value_and_gradient(lambda wide: definition(wide, member), x.double())
    std = (
        x.double()
        .var(
            -1,
            unbiased=False,
            keepdim=True,
        )
        .add(1e-5)
        .sqrt()
    )
    conditioning = 1 + x.double().abs().amax(-1, keepdim=True) / std
    # dl/dx may cancel to nothing: its error is compared with the size of dl/dz/std.
    for part, expected, least in zip(
        parts,
        exact,
        (torch.zeros_like(std), 1 / std),
        strict=True,
    ):
        assert part.shape == x.shape
        assert part.dtype == x.dtype
        size = expected.abs().amax(-1, keepdim=True).maximum(least)
        error = (part.double() - expected).abs() / (size * conditioning).clamp(min=1e-30)
        assert error.max().item() <= TOLERANCE[x.dtype], member


def assert_same(norm: Norm, expected: Norm, x: Tensor) -> None:
    """Assert that the values and the first and second gradients of a sum of cubes are equal."""
    leaf = x.clone().requires_grad_()
    results = []
    for function in (norm, expected):
        z = function(leaf)
        (first,) = torch.autograd.grad(z.pow(3).sum(), leaf, create_graph=True)
        (second,) = torch.autograd.grad(first.pow(2).sum(), leaf)
        results.append((z, first, second))
    for ours, theirs, tolerance in zip(*results, (1e-10, 1e-9, 1e-8), strict=True):
        torch.testing.assert_close(
            ours,
            theirs,
            rtol=tolerance,
            atol=tolerance,
        )
